-- Whether somebody's limiters may ask: those that asked within the window count, and no more than so many.
-- KEYS[1]  asking: sorted set, a limiter on a node by when it asked last, in milliseconds
-- ARGV[1]  now   ARGV[2]  the window, both in milliseconds   ARGV[3]  the most   ARGV[4] ...  the limiters that ask
-- Result   1, and they are noted; or 0, and nothing has changed
local now, window, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
local new = 0
for index = 4, #ARGV do
  if not redis.call('ZSCORE', KEYS[1], ARGV[index]) then new = new + 1 end
end
if new > 0 and redis.call('ZCARD', KEYS[1]) + new > most then return 0 end
for index = 4, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[index])
end
redis.call('PEXPIRE', KEYS[1], window)
return 1
