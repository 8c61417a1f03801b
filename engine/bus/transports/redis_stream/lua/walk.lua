-- The ids of a stretch of a stream, without its bodies.
--
-- KEYS  1 stream
-- ARGV  1 start and 2 end as XRANGE takes them · 3 how many ids at most
-- Result  ids, oldest first
--
-- Reads in small steps: a body may be a megabyte, and the script holds the bodies of one step.

local ids, from, left = {}, ARGV[1], tonumber(ARGV[3])
while left > 0 do
  local entries = redis.call('XRANGE', KEYS[1], from, ARGV[2], 'COUNT', math.min(left, 50))
  for _, entry in ipairs(entries) do ids[#ids + 1] = entry[1] end
  if #entries < math.min(left, 50) then break end
  left = left - #entries
  from = '(' .. ids[#ids]
end
return ids
