-- Go over to a newer version of the rules; one that is not newer changes nothing, however late it comes.
-- KEYS[1]  rules: hash rule:ID -> cmsgpack {limit, burst, fallback, by period}; and version
-- KEYS[2]  book: string, for the nodes to read
-- KEYS[3]  memory: hash with "epoch" and "born" (seconds): when this store last knew nothing
-- ARGV[1]  version   ARGV[2]  the book   ARGV[3]  seconds for the clock of a test, else ''
-- ARGV[4], ARGV[5], ...  rule, its cmsgpack, ...
-- Result   1 when it was kept, else 0
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
-- Greater than any epoch before it, wherever that was kept: nodes see that what they knew is gone.
if redis.call('HSETNX', KEYS[3], 'epoch', string.format('%d', now * 1000)) == 1 then
  redis.call('HSET', KEYS[3], 'born', string.format('%.6f', now))
end
if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', KEYS[1], 'version') or '0') then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', ARGV[1])
for index = 4, #ARGV, 2 do
  redis.call('HSET', KEYS[1], 'rule:' .. ARGV[index], ARGV[index + 1])
end
redis.call('SET', KEYS[2], ARGV[2])
return 1
