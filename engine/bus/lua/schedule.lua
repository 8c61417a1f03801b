-- Keep messages until they are due. Repeating one changes nothing, and another at its place is a conflict.
-- KEYS[1]  waiting: sorted set, member place (topic, source and id of a message), score due time in epoch ms
-- KEYS[2]  moving: sorted set of those being published now, score the end of the mover's claim
-- KEYS[3]  entries: hash, place -> entry, which begins with the digest of the message and a NUL
-- KEYS[4]  cancelled (see cancel.lua)   KEYS[5]  lane of the topic (see aside.lua)
-- KEYS[6…] one per idempotency key: string "<digest> <message id>", expires with its window. Until then the message is
--          not kept again, not even under its own id: it may have been published, or cancelled, since.
-- ARGV[1]  '1' to look for what a release without places kept, or ''
-- ARGV[2…] per message: place, id, due_ms, entry, index of its idempotency key in KEYS or 0, digest, window_ms, index of
--          the key under which a release without places kept it or 0
-- Result   per message: "ok", "kept <due ms>" (it was before, for then), "duplicate <original id>" (its own when it is
--          repeated), "conflict" (the key stands for another message), "taken" (another waits at its place), or
--          "former" (something lies under its bare id, see adopt.lua; nothing was done)
local results = {}
local look = ARGV[1] ~= ''
for at = 2, #ARGV, 8 do
  local place, id, due, entry = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local key, digest, window = tonumber(ARGV[at + 4]), ARGV[at + 5], tonumber(ARGV[at + 6])
  local former_key = tonumber(ARGV[at + 7])
  local result = 'ok'
  local kept = redis.call('HGET', KEYS[3], place)
  local former = not kept and look and redis.call('HGET', KEYS[3], id)
  if former and (string.byte(former) or 0) > 127 then
    result = 'former'
  elseif kept and string.sub(kept, 1, #digest + 1) ~= digest .. '\0' then
    result = 'taken'
  elseif not kept and former_key > 0 and redis.call('GET', KEYS[former_key]) == digest .. ' ' .. id then
    result = 'duplicate ' .. id
  elseif key > 0 then
    local seen = redis.call('GET', KEYS[key])
    if seen then
      local split = string.find(seen, ' ', 1, true)
      local original = string.sub(seen, split + 1)
      if string.sub(seen, 1, split - 1) ~= digest then
        result = 'conflict'
      else
        result = 'duplicate ' .. original
      end
    elseif window > 0 then
      redis.call('SET', KEYS[key], digest .. ' ' .. id, 'PX', window)
    end
  end
  if result == 'ok' and kept then
    result = 'kept ' .. (redis.call('ZSCORE', KEYS[1], place) or redis.call('ZSCORE', KEYS[5], place) or due)
  elseif result == 'ok' then
    redis.call('HSET', KEYS[3], place, entry)
    redis.call('ZADD', KEYS[1], due, place)
    redis.call('ZREM', KEYS[4], place)
  end
  results[#results + 1] = result
end
return results
