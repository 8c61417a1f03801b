-- Renew the lease of a run to its full length from now.
-- KEYS[1]  lease: string "<owner> <epoch>"
-- ARGV[1]  owner   ARGV[2]  epoch   ARGV[3]  lease in ms
-- Result   1 when renewed, 0 when it is not (or no longer) the owner's under this epoch
if redis.call('GET', KEYS[1]) ~= ARGV[1] .. ' ' .. ARGV[2] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
