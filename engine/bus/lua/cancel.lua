-- Cancel a message that is not due yet.
-- KEYS[1]  waiting   KEYS[2]  moving   KEYS[3]  entries (see schedule.lua)
-- KEYS[4]  cancelled: sorted set, member place, score when in epoch ms; whoever misses a message sees what became of it
-- KEYS[5]  lane of its topic   KEYS[6]  sent (see aside.lua)   KEYS[7]  refused   KEYS[8]  refused topics (see common.lua)
-- ARGV[1]  place   ARGV[2]  message id, to look for what a release without places kept, or ''
-- ARGV[3]  now in epoch ms   ARGV[4]  how long a cancellation is remembered, in ms
-- Result   1 cancelled, 2 too late (being published now, or it may have been), 0 not there, 3 something lies under its bare id, see adopt.lua
if redis.call('SISMEMBER', KEYS[6], ARGV[1]) == 1 then
  return 2
end
if redis.call('ZREM', KEYS[1], ARGV[1]) + redis.call('ZREM', KEYS[5], ARGV[1]) > 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
  refused_no_more(KEYS[7], KEYS[8], ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', ARGV[3] - ARGV[4])
  redis.call('ZADD', KEYS[4], ARGV[3], ARGV[1])
  return 1
end
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 2
end
local former = ARGV[2] ~= '' and redis.call('HGET', KEYS[3], ARGV[2])
if former and (string.byte(former) or 0) > 127 then
  return 3
end
return 0
