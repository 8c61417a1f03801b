-- Opens a topic to publishing, or closes it.
--
-- KEYS  1 statistics of the topic
-- ARGV  1 'open', 'close', or 'forget': closed, and what was counted is gone · 2 of 'forget': for how long it stays
--         closed, ms
-- Result  'OK'

local stats = KEYS[1]

-- What makes room must work when the store is full: see allow_when_full() of common.lua.
redis.call('HDEL', stats, '')

if ARGV[1] == 'open' then
  redis.call('HDEL', stats, 'closed')
  redis.call('PERSIST', stats)
  redis.call('HSETNX', stats, 'published', 0)
else
  if ARGV[1] == 'forget' then redis.call('DEL', stats) end
  redis.call('HSET', stats, 'closed', 1)
  if ARGV[1] == 'forget' then redis.call('PEXPIRE', stats, ARGV[2]) end
end
return 'OK'
