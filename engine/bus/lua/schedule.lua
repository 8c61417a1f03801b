-- Keep messages until they are due. Repeating a message id changes nothing.
-- KEYS[1]  waiting: sorted set, member message id, score due time in epoch ms
-- KEYS[2]  moving: sorted set of those being published now, score the end of the mover's claim
-- KEYS[3]  entries: hash, message id -> entry
-- KEYS[4…] one per idempotency key: string "<digest> <message id>", expires with its window. Until then the message is
--          not kept again, not even under its own id: it may have been published, or cancelled, since.
-- ARGV     per message: id, due_ms, entry, index of its idempotency key in KEYS or 0, digest, window_ms
-- Result   per message: "ok", "duplicate <original id>" (its own when it is repeated), or "conflict"
local results = {}
for at = 1, #ARGV, 6 do
  local id, due, entry = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local place, digest, window = tonumber(ARGV[at + 3]), ARGV[at + 4], tonumber(ARGV[at + 5])
  local result = 'ok'
  if place > 0 then
    local seen = redis.call('GET', KEYS[place])
    if seen then
      local split = string.find(seen, ' ', 1, true)
      local original = string.sub(seen, split + 1)
      if string.sub(seen, 1, split - 1) ~= digest then
        result = 'conflict'
      else
        result = 'duplicate ' .. original
      end
    elseif window > 0 then
      redis.call('SET', KEYS[place], digest .. ' ' .. id, 'PX', window)
    end
  end
  if result == 'ok' and redis.call('HSETNX', KEYS[3], id, entry) == 1 then
    redis.call('ZADD', KEYS[1], due, id)
  end
  results[#results + 1] = result
end
return results
