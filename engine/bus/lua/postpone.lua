-- Put claimed messages back, to be tried again later, in the same order.
-- KEYS[1]  waiting   KEYS[2]  moving (see schedule.lua)
-- ARGV[1]  when to try again, epoch ms   ARGV[2…]  places
-- Result   how many were put back
local count = 0
for at = 2, #ARGV do
  if redis.call('ZREM', KEYS[2], ARGV[at]) == 1 then
    -- A double has room for so small a part of a millisecond.
    redis.call('ZADD', KEYS[1], ARGV[1] - (#ARGV - at) / 4096, ARGV[at])
    count = count + 1
  end
end
return count
