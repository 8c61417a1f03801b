-- Give the lease of a run up.
-- KEYS[1]  lease: string "<owner> <epoch>"
-- ARGV[1]  owner   ARGV[2]  epoch
-- Result   1 when it was the owner's under this epoch and is free now, else 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then
  return 0
end
return redis.call('DEL', KEYS[1])
