-- Give a lease up.
-- KEYS[1]  holder: string "<owner> <epoch>"   KEYS[2]  released: the epoch given up
-- ARGV[1]  owner   ARGV[2]  epoch
-- Result   1 when it was held under this epoch and is free now, else 0
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return redis.call('DEL', KEYS[1])
