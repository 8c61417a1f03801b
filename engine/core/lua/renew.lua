-- Renew a lease to its full length from now.
-- KEYS[1]  holder: string "<owner> <epoch>"
-- ARGV[1]  owner   ARGV[2]  epoch   ARGV[3]  lease in milliseconds
-- Result   1 when renewed, 0 when it is not (or no longer) held under this epoch
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
