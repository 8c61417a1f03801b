-- Notes that nsqd may send these messages again although they are done with, and forgets notes that are old.
--
-- KEYS  1 state · 2 stale (see lease.lua)
-- ARGV  1 age in ms at which a note is forgotten · ids
-- Result  how many were noted

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV do redis.call('ZADD', KEYS[2], now, ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - ARGV[1]))
return #ARGV - 1
