-- Drop the entries of the fact stream that are booked, and note how far that is.
--
-- KEYS[1]  the stream                     prefix:{facts}:log
-- KEYS[2]  how many facts ever came in    prefix:{facts}:count
-- KEYS[3]  how many of them are out again prefix:{facts}:floor
-- ARGV[1]  id of the last booked entry, which stays
-- ARGV[2]  running number of the last booked fact
--
-- Returns the new floor. It never goes down, for a writer may have dropped more meanwhile, unless it lies beyond all
-- that came in: then the store was emptied or restored, and counts anew.
redis.call('XTRIM', KEYS[1], 'MINID', ARGV[1])
local came_in = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
local floor = tonumber(redis.call('GET', KEYS[3]) or '0') or 0
floor = string.format('%.0f', math.min(math.max(floor, tonumber(ARGV[2])), came_in))
redis.call('SET', KEYS[3], floor)
return floor
