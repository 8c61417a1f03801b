-- Reserves idempotency keys before a batch goes to nsqd, which knows none.
--
-- KEYS  one per message
-- ARGV  1 token of the publisher · 2 ms after which a reservation nobody confirmed is free again · then digest and
--       message id of each
-- Result  per key: 0 reserved for the caller · 1 another publisher has it reserved: ask again soon
--           {'duplicate' | 'held' | 'conflict', message id, due time in ms or 0} of the message it stands for
--
-- The value is "? <token>" while reserved, and "= <length of digest> <digest><message id>" once confirmed; claim.lua
-- puts down the ones of messages that wait for their due time. "? <token> <ms> @ …" is reserved until then by the message
-- that claimed it: if nobody confirms it, the key is claimed again, for its message is still to come.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  local reserved_until, claim = string.match(value or '', '^%? %S+ (%d+) (@ .*)$')
  if claim and tonumber(reserved_until) <= now then value = claim end
  if not value then
    redis.call('SET', key, '? ' .. ARGV[1], 'PX', ARGV[2])
    answers[i] = 0
  elseif string.sub(value, 1, 1) == '?' then
    answers[i] = 1
  else
    local held = string.match(value, '^@ (%d+) ')
    local length, rest = string.match(value, held and '^@ %d+ (%d+) (.*)$' or '^= (%d+) (.*)$')
    local same, original = string.sub(rest, 1, length) == ARGV[1 + 2 * i], string.sub(rest, length + 1)
    if same and held and original == ARGV[2 + 2 * i] then
      -- The claim of a message gives way to the message itself, when its time has come.
      local until_ms = string.format('%.0f', now + ARGV[2])
      local window = math.max(redis.call('PTTL', key), tonumber(ARGV[2]))
      redis.call('SET', key, '? ' .. ARGV[1] .. ' ' .. until_ms .. ' ' .. value, 'PX', window)
      answers[i] = 0
    else
      answers[i] = { not same and 'conflict' or held and 'held' or 'duplicate', original, held or '0' }
    end
  end
end
return answers
