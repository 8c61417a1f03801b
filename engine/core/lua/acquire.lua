-- Take a lease that nobody holds, and issue the next epoch.
-- KEYS[1]  holder: string "<owner> <epoch>", expires with the lease
-- KEYS[2]  epoch: the last epoch issued; never expires
-- KEYS[3]  released: the last epoch that was given up rather than running out
-- ARGV[1]  owner   ARGV[2]  lease in milliseconds
-- Result   {the new epoch or 0 while another holds it, 1 when the one before was released or there was none else 0}
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {0, 0}
end
local last = redis.call('GET', KEYS[2])
local clean = (not last or redis.call('GET', KEYS[3]) == last) and 1 or 0
local epoch = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. epoch, 'PX', ARGV[2])
return {epoch, clean}
