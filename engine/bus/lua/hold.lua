-- Have claims end at another time. What is claimed by nobody (any more), or anew, stays as it is.
-- KEYS[1]  moving (see schedule.lua)
-- ARGV[1]  when they end, epoch ms   ARGV[2…] per message: place, end of its claim in epoch ms
-- Result   how many there were
local count = 0
for at = 2, #ARGV, 2 do
  if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[at])) == tonumber(ARGV[at + 1]) then
    redis.call('ZADD', KEYS[1], ARGV[1], ARGV[at])
    count = count + 1
  end
end
return count
