-- Cancel a message that is not due yet.
-- KEYS[1]  waiting   KEYS[2]  moving   KEYS[3]  entries (see schedule.lua)
-- ARGV[1]  place
-- Result   1 cancelled, 2 too late (being published now), 0 not there
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  redis.call('HDEL', KEYS[3], ARGV[1])
  return 1
end
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 2
end
return 0
