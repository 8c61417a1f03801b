-- Forget messages that have been published. What is claimed by nobody (any more), or anew, stays: it may be another
-- that was kept since.
-- KEYS[1]  moving   KEYS[2]  entries (see schedule.lua)   KEYS[3]  sent (see aside.lua)
-- KEYS[4]  refused   KEYS[5]  refused topics (see common.lua)
-- ARGV     per message: place, end of its claim in epoch ms
-- Result   how many were there
local count = 0
for at = 1, #ARGV, 2 do
  local place = ARGV[at]
  if tonumber(redis.call('ZSCORE', KEYS[1], place)) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', KEYS[1], place)
    redis.call('SREM', KEYS[3], place)
    refused_no_more(KEYS[4], KEYS[5], place)
    count = count + redis.call('HDEL', KEYS[2], place)
  end
end
return count
