-- Removes a group from one partition of its topic at once, so that nothing of it is written any more. What lies dead and
-- was not forgotten stays.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 tries · 6 state of the group · 7 wake · 8 dead letters · 9 parked
--       10 aside · 11 heads
-- ARGV  1 group
-- Result  1

redis.call('DEL', KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[9], KEYS[10], KEYS[11])
if redis.call('TYPE', KEYS[8]).ok ~= 'stream' or redis.call('XLEN', KEYS[8]) == 0 then redis.call('DEL', KEYS[8]) end
for rank = 1, 3 do
  if redis.call('EXISTS', KEYS[rank]) == 1 then redis.call('XGROUP', 'DESTROY', KEYS[rank], ARGV[1]) end
end
return 1
