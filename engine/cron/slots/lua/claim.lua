-- Claim slots that have come, or nearly, each unless another node is at it. Who could not decide what it claimed claims
-- it again.
-- KEYS[n]  marker: string "<node> <claimed, ms>"; kept for whoever asks later
-- ARGV[1]  node   ARGV[2]  ms for which others leave a slot to its claimer   ARGV[3]  ms to keep a marker
-- ARGV[4]  ms before it comes from which on a slot may be claimed   ARGV[4 + n]  the slot of KEYS[n] in ms
-- Result   {the store's clock in ms, 1 when the first is claimed else 0, the same of the second, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local marker = ARGV[1] .. ' ' .. string.format('%d', now)
local answer = {now}
for number, key in ipairs(KEYS) do
  local free = now + ARGV[4] >= tonumber(ARGV[4 + number])
  local held = free and redis.call('GET', key)
  if held then
    local node, claimed = string.match(held, '^(.*) (%d+)$')
    free = not claimed or node == ARGV[1] or now >= tonumber(claimed) + tonumber(ARGV[2])
  end
  if free then
    redis.call('SET', key, marker, 'PX', ARGV[3])
  end
  answer[number + 1] = free and 1 or 0
end
return answer
