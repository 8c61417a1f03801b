-- Claim the slot behind the cursor, unless another beat is at it.
-- KEYS[1]  entry, as open.lua has it
-- ARGV[1]  holder   ARGV[2]  lease in ms   ARGV[3]  cursor as the caller knows it   ARGV[4]  slot in s   ARGV[5]  ms to keep
-- Result   {1 when it is claimed else 0, cursor (-1: the entry is forgotten), ms after which it may be}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local entry = redis.call('HMGET', KEYS[1], 'cursor', 'holder', 'until')
if not entry[1] then
  return {0, -1, 0}
end
local cursor = tonumber(entry[1])
if cursor ~= tonumber(ARGV[3]) then
  return {0, cursor, 0}
end
local early = tonumber(ARGV[4]) * 1000 - now
if early > 0 then
  return {0, cursor, early}
end
if entry[2] and entry[2] ~= ARGV[1] and now < tonumber(entry[3]) then
  return {0, cursor, tonumber(entry[3]) - now}
end
redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'until', string.format('%d', now + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return {1, cursor, 0}
