-- Forget messages that have been published.
-- KEYS[1]  moving   KEYS[2]  entries (see schedule.lua)
-- ARGV     places
-- Result   how many were there
redis.call('ZREM', KEYS[1], unpack(ARGV))
return redis.call('HDEL', KEYS[2], unpack(ARGV))
