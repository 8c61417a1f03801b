-- Claims idempotency keys for messages that are kept elsewhere until they are due.
--
-- KEYS  one per message
-- ARGV  digest, message id, window in ms and due time in ms of each
-- Result  per key: 0 claimed, now or before · 1 a publisher has it reserved: ask again soon
--           {'held' | 'duplicate' | 'conflict', message id, due time in ms or 0} of the message it stands for
--
-- The value of a claim is "@ <due time> <length of digest> <digest><message id>"; see reserve.lua for the others.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answers = {}
for i, key in ipairs(KEYS) do
  local digest, message_id, window, due = unpack(ARGV, 4 * i - 3, 4 * i)
  local value = redis.call('GET', key)
  local reserved_until, claim = string.match(value or '', '^%? %S+ (%d+) (@ .*)$')
  if claim and tonumber(reserved_until) <= now then value = claim end
  local state = value and string.sub(value, 1, 1)
  if not value then
    redis.call('SET', key, string.format('@ %s %d ', due, #digest) .. digest .. message_id, 'PX', window)
    answers[i] = 0
  elseif state == '?' then
    answers[i] = 1
  else
    local held = string.match(value, '^@ (%d+) ')
    local length, rest = string.match(value, held and '^@ %d+ (%d+) (.*)$' or '^= (%d+) (.*)$')
    local same, original = string.sub(rest, 1, length) == digest, string.sub(rest, length + 1)
    if same and held and original == message_id then
      answers[i] = 0
    else
      answers[i] = { not same and 'conflict' or held and 'held' or 'duplicate', original, held or '0' }
    end
  end
end
return answers
