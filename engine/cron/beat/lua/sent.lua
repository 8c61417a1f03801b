-- Say that a claimed slot is sent, or passed over; with a message it is sent in this very step.
-- KEYS[1]  entry, as open.lua has it   KEYS[2]  list: the queue, where a message is given
-- ARGV[1]  holder   ARGV[2]  cursor as it was claimed   ARGV[3]  slot in s   ARGV[4]  message, if any
-- Result   1 when it is done, 2 when it was done before, 0 when the claim was lost and nothing was done
local entry = redis.call('HMGET', KEYS[1], 'cursor', 'holder')
if entry[1] and tonumber(entry[1]) >= tonumber(ARGV[3]) then
  return 2
end
if entry[1] ~= ARGV[2] or entry[2] ~= ARGV[1] then
  return 0
end
if KEYS[2] then
  redis.call('LPUSH', KEYS[2], ARGV[4])
end
redis.call('HSET', KEYS[1], 'cursor', ARGV[3])
redis.call('HDEL', KEYS[1], 'holder', 'until')
return 1
