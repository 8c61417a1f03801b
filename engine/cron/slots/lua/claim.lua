-- Claim a slot that has come, unless another node is at it.
-- KEYS[1]  marker: string "<node> <claimed, ms>"; kept for whoever asks later
-- ARGV[1]  node   ARGV[2]  slot in ms   ARGV[3]  ms for which others leave it to its claimer   ARGV[4]  ms to keep it
-- Result   {1 when claimed else 0, the store's clock in ms}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if now < tonumber(ARGV[2]) then
  return {0, now}
end
local marker = redis.call('GET', KEYS[1])
if marker then
  local claimed = tonumber(string.match(marker, ' (%d+)$'))
  if claimed and now < claimed + tonumber(ARGV[3]) then
    return {0, now}
  end
end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. string.format('%d', now), 'PX', ARGV[4])
return {1, now}
