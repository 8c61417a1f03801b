-- Forget messages that have been published. What is claimed by nobody (any more) stays: it may be another, kept anew.
-- KEYS[1]  moving   KEYS[2]  entries (see schedule.lua)
-- ARGV     places
-- Result   how many were there
local count = 0
for _, place in ipairs(ARGV) do
  if redis.call('ZREM', KEYS[1], place) == 1 then
    count = count + redis.call('HDEL', KEYS[2], place)
  end
end
return count
