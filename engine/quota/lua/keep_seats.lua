-- Who sits goes on sitting. A seat that is not known any more is taken again, free or not: the work is being done, and
-- a store that forgot it must not sell its place to somebody else for long.
-- KEYS[1]  seats: sorted set of who sits, by the second in which their seat ends
-- ARGV[1]  life, in seconds   ARGV[2]  seconds for the clock of a test, else ''   ARGV[3], ...  names of seats
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local ends = string.format('%.6f', now + ARGV[1])
for index = 3, #ARGV do
  redis.call('ZADD', KEYS[1], ends, ARGV[index])
end
redis.call('PEXPIRE', KEYS[1], string.format('%d', ARGV[1] * 1000))
