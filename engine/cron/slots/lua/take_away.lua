-- Take the lease of a run from whoever has it, if it is the one that was meant.
-- KEYS[1]  lease: string "<owner> <epoch>"
-- ARGV[1]  epoch of the lease that was meant
-- Result   1 when it was there and is free now, 0 when nobody has a lease of the run, -1 when that is another one
local held = redis.call('GET', KEYS[1])
if not held then
  return 0
end
if string.match(held, ' (%d+)$') ~= ARGV[1] then
  return -1
end
return redis.call('DEL', KEYS[1])
