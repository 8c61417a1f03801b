-- Whether other messages wait at the places of some.
-- KEYS[1]  entries (see schedule.lua)
-- ARGV[1]  '1' to look for what a release without places kept, or ''
-- ARGV[2…] per message: place, id, digest
-- Result   per message: 0 no, 1 yes, 2 something lies under its bare id, see adopt.lua
local results = {}
for at = 2, #ARGV, 3 do
  local place, id, digest = unpack(ARGV, at, at + 2)
  local kept = redis.call('HGET', KEYS[1], place)
  local former = not kept and ARGV[1] ~= '' and redis.call('HGET', KEYS[1], id)
  local result = 0
  if kept and string.sub(kept, 1, #digest + 1) ~= digest .. '\0' then
    result = 1
  elseif former and (string.byte(former) or 0) > 127 then
    result = 2
  end
  results[#results + 1] = result
end
return results
