-- Put claimed messages back, to be tried again later, in the same order. What is claimed anew by another stays.
-- KEYS[1]  waiting   KEYS[2]  moving (see schedule.lua)   KEYS[3]  sent (see aside.lua)
-- ARGV[1]  when to try again, epoch ms
-- ARGV[2…] per message: place, end of its claim in epoch ms, '1' if it may have been sent or ''
-- Result   how many were put back
local count = 0
for at = 2, #ARGV, 3 do
  local place, ends, sent = unpack(ARGV, at, at + 2)
  if tonumber(redis.call('ZSCORE', KEYS[2], place)) == tonumber(ends) then
    redis.call('ZREM', KEYS[2], place)
    -- A double has room for so small a part of a millisecond.
    redis.call('ZADD', KEYS[1], ARGV[1] - (#ARGV - at - 2) / 3 / 4096, place)
    if sent == '1' then
      redis.call('SADD', KEYS[3], place)
    end
    count = count + 1
  end
end
return count
