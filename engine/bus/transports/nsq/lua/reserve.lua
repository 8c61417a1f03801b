-- Reserves idempotency keys before a batch goes to nsqd, which knows none.
--
-- KEYS  one per message
-- ARGV  1 token of the publisher · 2 ms after which a reservation nobody confirmed is free again · then digest and
--       message id of each
-- Result  per key: 0 reserved for the caller · 1 another publisher has it reserved: ask again soon
--           {'duplicate' | 'conflict', message id} of the message published under it
--
-- The value is "? <token>" while reserved, and "= <length of digest> <digest><message id>" once confirmed.

local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.call('GET', key)
  if not value then
    redis.call('SET', key, '? ' .. ARGV[1], 'PX', ARGV[2])
    answers[i] = 0
  elseif string.sub(value, 1, 1) == '?' then
    answers[i] = 1
  else
    local length, rest = string.match(value, '^= (%d+) (.*)$')
    local same = string.sub(rest, 1, length) == ARGV[1 + 2 * i]
    answers[i] = { same and 'duplicate' or 'conflict', string.sub(rest, length + 1) }
  end
end
return answers
