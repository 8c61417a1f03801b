-- Drops entries of a stream that may outlive what it belongs to; when that is gone, the stream with its last entry.
--
-- KEYS  1 the stream · 2 a key that is there as long as its owner is
-- ARGV  ids of their entries
-- Result  how many were there

local gone = 0
-- In steps, because Lua passes only some thousands of arguments to one call.
for from = 1, #ARGV, 1000 do
  gone = gone + redis.call('XDEL', KEYS[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('XLEN', KEYS[1]) == 0 then redis.call('DEL', KEYS[1]) end
return gone
