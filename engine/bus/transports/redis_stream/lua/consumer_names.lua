-- Lists the consumers of a group's part, and removes those that have asked for nothing for long and have nothing pending.
--
-- KEYS  1-3 streams high, normal, low · 4 state of the group
-- ARGV  1 group · 2 remove names idle for so many ms; '' to remove none
-- Result  {name, pending, idle ms, 1 if it was removed…}, flat
--         error GROUPLOST or NOGROUP: the group, or its part on one stream, is not there
--
-- XGROUP DELCONSUMER drops what is pending with the name, so a name goes from all three streams or from none.

if redis.call('HEXISTS', KEYS[4], 'generation') == 0 then return redis.error_reply('GROUPLOST the group has no state') end

local names, pending, idle = {}, {}, {}
for rank = 1, 3 do
  for _, row in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[rank], ARGV[1])) do
    local name, rests = field(row, 'name'), field(row, 'idle')
    if not pending[name] then
      names[#names + 1] = name
      pending[name], idle[name] = 0, rests
    end
    pending[name] = pending[name] + field(row, 'pending')
    idle[name] = math.min(idle[name], rests)
  end
end

local answer = {}
for _, name in ipairs(names) do
  local removed = ARGV[2] ~= '' and pending[name] == 0 and idle[name] >= tonumber(ARGV[2])
  if removed then
    for rank = 1, 3 do redis.call('XGROUP', 'DELCONSUMER', KEYS[rank], ARGV[1], name) end
  end
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = name, pending[name], idle[name], removed and 1 or 0
end
return answer
