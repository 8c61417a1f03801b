-- Take a seat, if one is free. Atomic; costs O(log seats + seats that have ended).
-- KEYS[1]  seats: sorted set of who sits, by the second in which their seat ends
-- ARGV[1]  the seat's name: who repeats it sits already   ARGV[2]  how many there are   ARGV[3]  its life, in seconds
-- ARGV[4]  seconds for the clock of a test, else ''
-- Result   1 when it was taken, else 0
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.6f', now))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], string.format('%.6f', now + ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], string.format('%d', ARGV[3] * 1000))
return 1
