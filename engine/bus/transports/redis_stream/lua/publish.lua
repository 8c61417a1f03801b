-- Appends a batch in order, checking idempotency keys atomically with the append.
--
-- KEYS  1-3 streams high, normal, low · 4 statistics of the topic · 5… streams of further partitions and idempotency
--       keys, as the plan refers to them
-- ARGV  1 now in ms, or '' for the server's clock
--       2 '' when every message is normal, without a key and of partition 0; else the plan, JSON: one
--         [index of its stream in KEYS, message id, digest, window ms, index of its key in KEYS or 0,
--          what the stream adds to a position] per message. Stream 0 appends nothing: it claims the key for a message
--          that is kept elsewhere until it is due, with "@<due ms>" in the place of a position
--       3… bodies
-- Result  one item per message: its id when stored (the caller adds what the stream adds), or
--         {'duplicate' | 'conflict', message id, position} of the original, {'held', message id, '@<due ms>'} where
--         another message's claim was met, {'ok', '', ''} for a claim, {'closed', '', ''} where the topic takes nothing,
--         or {'failed', the server's words}
--
-- The value of an idempotency key is "<expires ms> <length of digest> <digest><position> <message id>". It holds the
-- expiry as well, because an injected clock does not move the server's.

local plan = ARGV[2] ~= '' and cjson.decode(ARGV[2])
local injected = ARGV[1] ~= ''
local now = (injected or plan) and clock(ARGV[1])
local outcomes, stored, deduplicated = {}, 0, 0

if redis.call('HEXISTS', KEYS[4], 'closed') == 1 then
  for i = 1, #ARGV - 2 do outcomes[i] = { 'closed', '', '' } end
  return outcomes
end

local function append(key, body)
  return redis.pcall('XADD', key, injected and next_id(key, now) or '*', 'event', body)
end

-- What was published under this key inside its window, or nil.
local function original(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local expires, length, rest = string.match(value, '^(%d+) (%d+) (.*)$')
  if tonumber(expires) <= now then return nil end
  local position, message_id = string.match(string.sub(rest, length + 1), '^(%S+) (.*)$')
  return {
    digest = string.sub(rest, 1, length), position = position, message_id = message_id, left_ms = expires - now
  }
end

local function remember(key, window_ms, digest, position, message_id)
  local value = string.format('%.0f %d ', now + window_ms, #digest) .. digest .. position .. ' ' .. message_id
  redis.call('SET', key, value, 'PX', window_ms)
end

for i = 1, #ARGV - 2 do
  local item = plan and plan[i]
  local keyed = item and item[5] > 0
  local seen = keyed and original(KEYS[item[5]])
  local claim = item and item[1] == 0
  local same = seen and seen.digest == item[3]
  local held = same and string.sub(seen.position, 1, 1) == '@'
  -- The claim of a message gives way to the message itself, when its time has come; what was promised for its key, and
  -- may be longer than the topic's window, holds.
  local window_ms = item and item[4]
  if held and seen.message_id == item[2] then
    window_ms = math.max(window_ms, seen.left_ms)
    seen = nil
  end
  if seen then
    if same then deduplicated = deduplicated + 1 end
    outcomes[i] = { held and 'held' or same and 'duplicate' or 'conflict', seen.message_id, seen.position }
  elseif claim then
    -- Its own claim, repeated, keeps the due time and the window it has.
    if not held then remember(KEYS[item[5]], item[4], item[3], item[6], item[2]) end
    outcomes[i] = { 'ok', '', '' }
  else
    local id = append(KEYS[item and item[1] or 2], ARGV[i + 2])
    if type(id) == 'table' then
      outcomes[i] = { 'failed', id.err, '' }
    else
      stored = stored + 1
      outcomes[i] = id
      if keyed then remember(KEYS[item[5]], window_ms, item[3], id .. item[6], item[2]) end
    end
  end
end

if stored > 0 and redis.call('HINCRBY', KEYS[4], 'published', stored) == stored then incarnation(KEYS[4]) end
if deduplicated > 0 then redis.call('HINCRBY', KEYS[4], 'deduplicated', deduplicated) end
return outcomes
