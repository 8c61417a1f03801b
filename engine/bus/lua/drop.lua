-- Give claimed messages up that will never be published. What is claimed by nobody (any more) stays.
-- KEYS[1]  moving   KEYS[2]  entries (see schedule.lua)   KEYS[3]  cancelled (see cancel.lua)
-- ARGV[1]  now in epoch ms   ARGV[2…]  places
-- Result   how many were there
local count = 0
for at = 2, #ARGV do
  if redis.call('ZREM', KEYS[1], ARGV[at]) == 1 and redis.call('HDEL', KEYS[2], ARGV[at]) == 1 then
    redis.call('ZADD', KEYS[3], ARGV[1], ARGV[at])
    count = count + 1
  end
end
return count
