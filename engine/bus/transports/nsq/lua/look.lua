-- Takes a turn at going over the copies of what was published, and reads those that are next.
--
-- KEYS  1 turn of the group · 2 copies · 3 cursors (see sweep.lua)
-- ARGV  1 group · 2 ms for which nobody else has the turn, or '' to go on with it · 3 age in ms below which a copy is left
--       alone · 4 the most copies
-- Result  {} when somebody else has the turn, else {how far the group has come, copies, how many there are in all}

if ARGV[2] ~= '' and not redis.call('SET', KEYS[1], '1', 'NX', 'PX', ARGV[2]) then return {} end
local time = redis.call('TIME')
local until_ms = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3]
local cursor = redis.call('HGET', KEYS[3], ARGV[1]) or '0-0'
return { cursor, redis.call('XRANGE', KEYS[2], '(' .. cursor, string.format('%.0f', until_ms), 'COUNT', ARGV[4]),
  redis.call('XLEN', KEYS[2]) }
