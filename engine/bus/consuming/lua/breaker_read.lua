-- How one subscription's breaker stands. What each act makes of it is decided in engine/bus/breaker_board.py.
-- KEYS[1]  breaker: hash of state (open | probing | closed; absent: closed), until_ms, opens, since_ms, why, prober,
--          prober_until_ms, forced (1 when a person opened it), revision (grows with each writing)
-- ARGV[1]  now in ms, or empty for the store's own clock
-- Result   {now in ms, and the fields in this order, false where there is none}
local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
end
local fields = redis.call('HMGET', KEYS[1], 'state', 'until_ms', 'opens', 'since_ms', 'why', 'prober', 'prober_until_ms',
  'forced', 'revision')
table.insert(fields, 1, now)
return fields
