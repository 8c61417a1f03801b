-- Take the lease of a run that nobody holds, and issue its next epoch.
-- KEYS[1]  lease: string "<owner> <epoch>", expires with it
-- KEYS[2]  epoch: the last one issued; kept longer than any worker may go on with an old one
-- ARGV[1]  owner   ARGV[2]  lease in ms   ARGV[3]  floor: the last epoch that the database knows   ARGV[4]  ms to keep
-- Result   the new epoch, greater than every one before and than the floor; 0 while another holds the lease
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local epoch = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') or 0, tonumber(ARGV[3])) + 1
redis.call('SET', KEYS[2], epoch, 'PX', ARGV[4])
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. epoch, 'PX', ARGV[2])
return epoch
