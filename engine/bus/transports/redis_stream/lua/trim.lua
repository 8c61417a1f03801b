-- Removes the entries before a cutoff from one stream, but none that some group has not settled.
--
-- KEYS  1 stream  2 how many were taken of each stream of the topic
-- ARGV  1 cutoff: the first id to keep  2 the name of the stream's log
-- Result  {removed, the first id that was kept for a group or '', names of the groups that held it back…}

if redis.call('EXISTS', KEYS[1]) == 0 then return { 0, '' } end

local cutoff, bound, held = ARGV[1], ARGV[1], {}
for _, row in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local name = field(row, 'name')
  -- Its oldest pending entry, or else the first one it was never given.
  local floor = redis.call('XPENDING', KEYS[1], name)[2]
  if not floor then
    floor = first_after(KEYS[1], field(row, 'last-delivered-id'))
  end
  if floor and before(floor, cutoff) then
    held[#held + 1] = name
    if before(floor, bound) then bound = floor end
  end
end
-- Exact: approximate trimming may remove nothing at all.
local removed = redis.call('XTRIM', KEYS[1], 'MINID', '=', bound)
-- For extent.lua, where the server does not count what a stream was given.
if removed > 0 then redis.call('HINCRBY', KEYS[2], ARGV[2], removed) end
return { removed, #held > 0 and bound or '', unpack(held) }
