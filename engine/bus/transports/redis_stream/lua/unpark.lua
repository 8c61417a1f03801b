-- An operator's decision about a parked key: its messages come again, in order, after their head was dealt with.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 tries · 6 state of the group · 7 wake · 8 dead letters · 9 parked
--       10 aside · 11 heads
-- ARGV  1 group · 2 key · 3 what becomes of the head: 'retry', 'skip' (settled without having been handled) or 'dead'
--       · then, of the parking that was decided about: 4 position of its head, or '' · 5 its record; without them
--       whichever there is
-- Result  {how many come again, position of the head, its body}; an empty list, and nothing done, when the key is not
--         parked, or that was another parking

local record = redis.call('HGET', KEYS[9], ARGV[2])
if not record then return {} end
local leases, tries, state = KEYS[4], KEYS[5], KEYS[6]
local group, verdict = ARGV[1], ARGV[3]
local prefix = aside_prefix(ARGV[2])
-- What follows it is a digit; the colon is the character after the nine.
local members = redis.call('ZRANGEBYLEX', KEYS[10], '[' .. prefix .. '0', '(' .. prefix .. ':')

local positions, head, known = {}, redis.call('HGET', KEYS[11], ARGV[2]), false
for i, member in ipairs(members) do
  local ms, seq, mark = string.match(string.sub(member, #prefix + 1), '^0*(%d+)%-0*(%d+)(%a?)$')
  positions[i] = ms .. '-' .. seq .. mark
  known = known or positions[i] == head
end
if not known then head = positions[1] end
-- A head that was retried may have parked its key again where it lies: its record tells of other attempts then.
if ARGV[4] and (ARGV[4] ~= (head or '') or ARGV[5] ~= record) then return {} end

local found, body, back = '', '', 0
for _, position in ipairs(positions) do
  -- What retention by hand or a seek has taken meanwhile has no lease.
  if redis.call('ZSCORE', leases, position) then
    local rank, id = locate(position)
    if position == head then
      local entry = redis.call('XRANGE', KEYS[rank], id, id)[1]
      found, body = position, entry and entry[2][2] or ''
    end
    if position ~= head or verdict == 'retry' then
      if position == head then redis.call('HDEL', tries, position) end
      redis.call('ZADD', leases, released_score(id), position)
      back = back + 1
    else
      if verdict == 'dead' then
        redis.call('XADD', KEYS[8], '*', 'event', body, 'record', record, 'position', position)
      end
      redis.call('XACK', KEYS[rank], group, id)
      redis.call('ZREM', leases, position)
      redis.call('HDEL', tries, position)
      redis.call('HINCRBY', state, verdict == 'dead' and 'dead' or 'skipped', 1)
    end
  end
end
-- In steps, because Lua passes only some thousands of arguments to one call.
for from = 1, #members, 1000 do
  redis.call('ZREM', KEYS[10], unpack(members, from, math.min(from + 999, #members)))
end
redis.call('HDEL', KEYS[9], ARGV[2])
redis.call('HDEL', KEYS[11], ARGV[2])
redis.call('HINCRBY', state, 'parks', 1)
wake(KEYS[7])
return { back, found, body }
