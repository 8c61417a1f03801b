-- Where a group stands on each stream, and in which states its leases are: one consistent picture.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 state of the group · 6 dead letters · 7 statistics of the topic
-- ARGV  1 group · 2 now in ms, or '' for the server's clock
-- Result  {paused 0 or 1, released, live leases, leases that ran out, retrying, parked, dead, incarnation of the topic,
--          then per stream {last delivered id, lag or -1 when the server cannot tell, oldest pending id or '',
--                           oldest undelivered id or ''}}
--         error GROUPLOST or NOGROUP: the group, or its part on one stream, is not there

local group = ARGV[1]
local facts = redis.call('HMGET', KEYS[5], 'generation', 'paused')
if not facts[1] then return redis.error_reply('GROUPLOST the group has no state') end
local now = score(clock(ARGV[2]))

local result = {
  facts[2] and 1 or 0,
  redis.call('ZCOUNT', KEYS[4], '-inf', '(0'),
  redis.call('ZCOUNT', KEYS[4], '(' .. now, '(' .. score(BAND)),
  redis.call('ZCOUNT', KEYS[4], 0, now),
  redis.call('ZCOUNT', KEYS[4], score(BAND), '(' .. score(PARKED)),
  redis.call('ZCOUNT', KEYS[4], score(PARKED), '+inf'),
  redis.call('XLEN', KEYS[6]),
  redis.call('HGET', KEYS[7], 'incarnation') or '',
}
for rank = 1, 3 do
  local rows = redis.pcall('XINFO', 'GROUPS', KEYS[rank])
  local mine
  for _, row in ipairs(rows.err and {} or rows) do
    if field(row, 'name') == group then mine = row end
  end
  if not mine then return redis.error_reply('NOGROUP the group is gone from ' .. KEYS[rank]) end
  local last = field(mine, 'last-delivered-id')
  local pending = redis.call('XPENDING', KEYS[rank], group)
  local new = first_after(KEYS[rank], last)
  local lag = field(mine, 'lag')
  if not new then lag = 0 end
  result[8 + rank] = { last, lag or -1, pending[2] or '', new or '' }
end
return result
