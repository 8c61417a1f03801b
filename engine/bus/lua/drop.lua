-- Give claimed messages up that will never be published. What is claimed by nobody (any more), or anew, stays.
-- KEYS[1]  moving   KEYS[2]  entries (see schedule.lua)   KEYS[3]  cancelled (see cancel.lua)
-- KEYS[4]  sent (see aside.lua)   KEYS[5]  refused   KEYS[6]  refused topics (see common.lua)
-- ARGV[1]  now in epoch ms   ARGV[2…] per message: place, end of its claim in epoch ms
-- Result   how many were there
local count = 0
for at = 2, #ARGV, 2 do
  local place = ARGV[at]
  if tonumber(redis.call('ZSCORE', KEYS[1], place)) == tonumber(ARGV[at + 1]) then
    redis.call('ZREM', KEYS[1], place)
    redis.call('SREM', KEYS[4], place)
    refused_no_more(KEYS[5], KEYS[6], place)
    if redis.call('HDEL', KEYS[2], place) == 1 then
      redis.call('ZADD', KEYS[3], ARGV[1], place)
      count = count + 1
    end
  end
end
return count
