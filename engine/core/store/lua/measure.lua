-- What lies in a stretch of a stream, and how large each entry is, without bringing it.
--
-- KEYS  1 stream
-- ARGV  1 XRANGE or XREVRANGE · 2 start and 3 end as it takes them · 4 how many entries at most · 5 about how many bytes
-- Result  {1 where nothing lies beyond what is told, else 0, then id and bytes of each}
--
-- The script holds what one step reads, and an entry may be as large as there is room for all: only behind small ones
-- does it take some more at once.

local from, left, room, step = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5]), 1
local answer = { 0 }
repeat
  local asked = math.min(step, left)
  local entries = redis.call(ARGV[1], KEYS[1], from, ARGV[3], 'COUNT', asked)
  local before = room
  for _, entry in ipairs(entries) do
    local size = 0
    for _, field in ipairs(entry[2]) do size = size + #field end
    answer[#answer + 1] = entry[1]
    answer[#answer + 1] = size
    room, from = room - size, '(' .. entry[1]
  end
  left = left - #entries
  if #entries < asked then answer[1] = 1 end
  step = before - room <= 65536 and math.min(8, step * 2) or 1
until answer[1] == 1 or left <= 0 or room <= 0
return answer
