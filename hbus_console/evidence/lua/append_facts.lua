-- Append one batch of facts to the fact stream, once, and keep the unbooked backlog bounded.
--
-- KEYS[1]  the stream                     prefix:{facts}:log
-- KEYS[2]  how many facts ever came in    prefix:{facts}:count
-- KEYS[3]  how many of them are out again (booked by the keeper, or dropped here)   prefix:{facts}:floor
-- KEYS[4]  digest of this writer's last batch                                       prefix:{facts}:last:WRITER
-- ARGV[1]  the batch, MessagePack
-- ARGV[2]  how many facts it holds
-- ARGV[3]  its digest
-- ARGV[4]  how many facts may wait for the keeper
-- ARGV[5]  seconds to remember the digest
--
-- Returns the entry's id, or an empty string when this very batch was the writer's last one: the writer repeats a
-- batch whose answer it never saw. An entry holds n, the running number of its last fact, by which the reader
-- notices what was dropped.

-- The store does nothing else meanwhile. A batch holds at most so many facts, and an entry at least one.
local MOST_DROPPED = 2000

if redis.call('GET', KEYS[4]) == ARGV[3] then
  return ''
end
local total = redis.call('INCRBY', KEYS[2], ARGV[2])
local id = redis.call('XADD', KEYS[1], '*', 'n', total, 'f', ARGV[1])
redis.call('SET', KEYS[4], ARGV[3], 'EX', ARGV[5])

-- Whoever can write to the store can put an entry of any number there. The floor follows only what can be true, and
-- never goes down; such an entry is dropped like any other when it is the oldest.
local floor = tonumber(redis.call('GET', KEYS[3]) or '0') or 0
local limit = tonumber(ARGV[4])
local dropped = 0
while total - floor > limit and dropped < MOST_DROPPED do
  local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if not oldest or oldest[1] == id then
    break
  end
  redis.call('XDEL', KEYS[1], oldest[1])
  dropped = dropped + 1
  local last = tonumber(oldest[2][2])
  if last and last > floor and last <= total then
    floor = last
    redis.call('SET', KEYS[3], string.format('%.0f', floor))
  end
end
return id
