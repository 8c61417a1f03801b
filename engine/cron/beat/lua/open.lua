-- How far an entry is sent, from now on for one that nobody has opened.
-- KEYS[1]  entry: hash  cursor: the last slot that is decided, s  |  holder, until: who is at the next one, and how long, ms
-- ARGV[1]  ms to keep an entry that nobody looks at   ARGV[2]  its name, for whoever looks
-- Result   {cursor in s, 1 when this call has opened it else 0}
local opened = redis.call('HSETNX', KEYS[1], 'cursor', redis.call('TIME')[1])
if opened == 1 then
  redis.call('HSET', KEYS[1], 'entry', ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {tonumber(redis.call('HGET', KEYS[1], 'cursor')), opened}
