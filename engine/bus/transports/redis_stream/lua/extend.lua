-- Renews the leases of deliveries that their holder still owns.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 state of the group
-- ARGV  1 group · 2 now in ms, or '' for the server's clock · 3 lease in ms · 4 epoch · then per delivery:
--       position · token
-- Result  the 1-based numbers, in the order given, of those that were refused: all of them under an old epoch

local generation = redis.call('HGET', KEYS[5], 'generation')
local deadline = clock(ARGV[2]) + tonumber(ARGV[3])
local refused, ordinal = {}, 0
local fenced = ARGV[4] ~= '' and redis.call('HGET', KEYS[5], 'epoch') ~= ARGV[4]
allow_when_full(KEYS[4])
for i = 5, #ARGV, 2 do
  ordinal = ordinal + 1
  local position = ARGV[i]
  local rank, id = locate(position)
  if not fenced and owns(KEYS[4], KEYS[rank], ARGV[1], position, id, ARGV[i + 1], generation) then
    redis.call('ZADD', KEYS[4], 'XX', score(deadline), position)
  else
    refused[#refused + 1] = ordinal
  end
end
return refused
