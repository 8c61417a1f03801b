-- Pauses or resumes a group for the whole cluster; who waits learns of it at once.
--
-- KEYS  1 state of the group · 2 wake
-- ARGV  1 'pause' or 'resume'
-- Result  1
--         error GROUPLOST: there is no such group

if redis.call('HEXISTS', KEYS[1], 'generation') == 0 then return redis.error_reply('GROUPLOST the group has no state') end
if ARGV[1] == 'pause' then
  redis.call('HSET', KEYS[1], 'paused', 1)
else
  redis.call('HDEL', KEYS[1], 'paused')
end
wake(KEYS[2])
return 1
