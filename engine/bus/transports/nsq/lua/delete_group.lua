-- Removes what lies beside nsqd of a group at once: from then on no receiver leases anything more. What lies dead and was
-- not forgotten stays.
--
-- KEYS  1 dead letters · all other keys of the group
-- ARGV  none
-- Result  1

redis.call('DEL', unpack(KEYS, 2))
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' or redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return 1
