-- Write how one subscription's breaker stands, unless somebody has since it was read.
-- KEYS[1]  breaker: see breaker_read.lua
-- ARGV[1]  the revision that was read, 0 for none   ARGV[2]  how long to keep it in ms, 0 for ever
-- ARGV[3…] field, value, field, value …
-- Result   1 written | 0 somebody was faster
if (redis.call('HGET', KEYS[1], 'revision') or '0') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'revision', ARGV[1] + 1, unpack(ARGV, 3))
if ARGV[2] == '0' then
  redis.call('PERSIST', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
