-- Leases up to `limit` messages for one consumer: what is due again first, then new ones by priority. Never blocks.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 tries · 6 state of the group · 7 wake · 8 parked
-- ARGV  1 group · 2 consumer · 3 limit (at most 1000) · 4 lease in ms · 5 now in ms, or '' for the server's clock
--       6 epoch: then what is due comes in the order of publishing whatever made it due, and not before the leases of the
--         owner before have ended
--       7 under an epoch: the number of the last read that reached the consumer, 0 before the first. What a later one
--         leased did not: it is handed out again before anything new, and counts no attempt
--       8 under an epoch: the changes of the parked keys that the consumer has seen
-- Result  {'got', generation, again, high, normal, low, changes of the parked keys, number of this read, parked keys where
--         there were more changes, else ''}: `again` holds
--           {position, body, times handed out, failed attempts, history} of the redelivered; the others are
--           {positions, bodies} of those delivered first time
--         {'idle', ms until something is due or -1, ids after which to wait on KEYS 1-3 and 7}
--         {'paused', id after which to wait on KEYS 7}
--         error GROUPLOST or NOGROUP: the group, or its part on one stream, is not there
--         error FENCED: the partition has another owner
--
-- A member whose lease ran out counts as a failed attempt of the consumer that had it; under an epoch, a second or later
-- attempt only if it was said to begin.

local streams, leases, tries, state, wake_key = { KEYS[1], KEYS[2], KEYS[3] }, KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local group, consumer, limit, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local suffixes = { 'h', '', 'l' }

local generation, paused, epoch, read_from, parks, last_read, taken =
  unpack(redis.call('HMGET', state, 'generation', 'paused', 'epoch', 'read_from', 'parks', 'read', 'taken'))
if not generation then return redis.error_reply('GROUPLOST the group has no state') end
local ordered = ARGV[6] ~= ''
if ordered and epoch ~= ARGV[6] then return redis.error_reply('FENCED the partition has another owner') end

-- A stream that has lost its group is reported before anything is leased.
for rank = 1, 3 do redis.call('XPENDING', streams[rank], group) end

local function wake_id()
  local last = redis.call('XREVRANGE', wake_key, '+', '-', 'COUNT', 1)
  return last[1] and last[1][1] or '0-0'
end

if paused then return { 'paused', wake_id() } end

local now = clock(ARGV[5])
local deadline = string.format('%.0f', now + lease_ms)

-- Adds what a lapsed lease says to the tries of a message; returns its failed attempts and history.
local function lapse(position, ran_out_ms, owner, held_ms)
  redis.call('HINCRBY', state, 'lapsed', 1)
  local failed, begun, history = tries_of(tries, position)
  -- It waited behind others: whoever begins a second attempt says so before.
  if ordered and failed > 0 and not begun then return failed, history end
  failed = failed + 1
  local attempt = string.format('[%d,%.0f,%.0f,%s,"lease ran out"]', failed, ran_out_ms, held_ms * 1000,
    cjson.encode(owner))
  return note_tries(tries, position, failed, false, history, attempt)
end

local function hand_out_again(position, at)
  local rank, id = locate(position)
  local pending = redis.call('XPENDING', streams[rank], group, id, id, 1)[1]
  local times = (pending and pending[4] or 0) + 1
  -- FORCE: what the leases say is unsettled is handed out even if somebody deleted its owner from the group.
  local entry = redis.call('XCLAIM', streams[rank], group, consumer, 0, id, 'RETRYCOUNT', times, 'FORCE')[1]
  if not entry then
    redis.call('XACK', streams[rank], group, id)
    redis.call('ZREM', leases, position)
    redis.call('HDEL', tries, position)
    redis.call('HINCRBY', state, 'vanished', 1)
    return nil
  end
  local failed, begun, history
  if at >= 0 and at < BAND then
    failed, history = lapse(position, at, pending and pending[2] or '', pending and pending[3] or 0)
  else
    failed, begun, history = tries_of(tries, position)
    -- It was begun, and its holder could not say what came of it.
    if begun then failed, history = note_tries(tries, position, failed + 1, false, history, '') end
  end
  redis.call('ZADD', leases, deadline, position)
  return { position, entry[2][2], times, failed, history }
end

local again, room = {}, limit
-- Adds what is due with a score between these to `due`: the lowest `most`, or all of it.
local function find_due(due, from, to, most)
  local found = most and redis.call('ZRANGEBYSCORE', leases, from, to, 'WITHSCORES', 'LIMIT', 0, most)
    or redis.call('ZRANGEBYSCORE', leases, from, to, 'WITHSCORES')
  for i = 1, #found, 2 do
    due[#due + 1] = { position = found[i], rank = locate(found[i]), at = tonumber(found[i + 1]) }
  end
  return due
end

local function take(due)
  for _, each in ipairs(due) do
    if room <= 0 then return end
    local item = hand_out_again(each.position, each.at)
    if item then
      again[#again + 1] = item
      room = room - 1
    end
  end
end

local function take_due(from, to)
  if room <= 0 then return end
  local due = find_due({}, from, to, room)
  table.sort(due, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    if a.at ~= b.at then return a.at < b.at end
    -- Of one batch: the shorter text has the smaller number in its sequence.
    if #a.position ~= #b.position then return #a.position < #b.position end
    return a.position < b.position
  end)
  take(due)
end

-- Of those that wait for another attempt so many are put in order with the rest; there are more only where failed ones
-- let others pass, and keep no order.
local RETRYING_MOST = 5000

-- All that is due, or of very much the beginning of it, and whether there is more behind. An unparking releases any
-- number at once, so the lowest scores alone may leave out leases that ran out, and what those hold comes before.
local function due_in_order()
  local due, last = find_due({}, '-inf', score(now), room + 1), nil
  if #due > room then
    -- Scores do not tell apart all that was published in one millisecond: what shares the last one belongs to it.
    local at = due[#due].at
    if at < 0 then last = at end
    due = find_due({}, '-inf', last and string.format('%.17g', last) or score(now))
    if last then find_due(due, 0, score(now)) end
  end
  local released_or_lapsed = #due
  find_due(due, score(BAND), score(BAND + now), RETRYING_MOST)
  local more = last ~= nil or #due - released_or_lapsed == RETRYING_MOST
  if not last then return due, more end
  local beginning = {}
  for _, each in ipairs(due) do
    local _, id = locate(each.position)
    if tonumber(released_score(id)) <= last then beginning[#beginning + 1] = each end
  end
  return beginning, more
end

local function take_in_order()
  local due, more = due_in_order()
  -- By numbers: the text of an id with a longer sequence would come first.
  for _, each in ipairs(due) do
    local ms, seq = string.match(each.position, '^(%d+)-(%d+)')
    each.ms, each.seq = tonumber(ms), tonumber(seq)
  end
  table.sort(due, function(a, b)
    if a.rank ~= b.rank then return a.rank < b.rank end
    if a.ms ~= b.ms then return a.ms < b.ms end
    return a.seq < b.seq
  end)
  take(due)
  return more
end

-- What the last read has leased, where its answer did not reach the consumer. Leases alone do not tell: what the consumer
-- holds is leased, too, and must not be handed out beside it.
local function give_back()
  for first, last in string.gmatch(taken, '(%S+) (%S+)') do
    local rank, from = locate(first)
    local _, to = locate(last)
    -- One read leases no more than this.
    for _, row in ipairs(redis.call('XPENDING', streams[rank], group, from, to, 1000)) do
      local position = row[1] .. suffixes[rank]
      local at = tonumber(redis.call('ZSCORE', leases, position) or -1)
      if at >= 0 and at < BAND then redis.call('ZADD', leases, released_score(row[1]), position) end
    end
  end
end

local hold_ms = ordered and read_from and tonumber(read_from) - now or 0
-- Whether more is due than was looked at, so that nothing new may come yet: what was looked at may have been gone.
local more_due = false
if hold_ms > 0 then
  room = 0
elseif ordered then
  -- The store may be behind instead: it was restored from a copy that does not have the last reads.
  if taken and tonumber(last_read) > tonumber(ARGV[7]) then give_back() end
  more_due = take_in_order()
else
  take_due('-inf', score(now))
  take_due(score(BAND), score(BAND + now))
end

local fresh = { {}, {}, {} }
for rank = 1, 3 do
  if room > 0 and not more_due then
    local reply = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', room, 'STREAMS', streams[rank], '>')
    if reply then
      -- Flat lists cross to the client much faster than the nested reply.
      local entries, suffix = reply[1][2], suffixes[rank]
      local positions, bodies, members = {}, {}, {}
      for i = 1, #entries do
        local entry = entries[i]
        local position = entry[1] .. suffix
        positions[i] = position
        bodies[i] = entry[2][2]
        members[2 * i - 1] = deadline
        members[2 * i] = position
      end
      redis.call('ZADD', leases, unpack(members))
      fresh[rank] = { positions, bodies }
      room = room - #positions
    end
  end
end

-- Notes what this read leased, as pairs of first and last position: nothing comes between two that are new.
local function note_read()
  local number = math.max(tonumber(last_read or 0), tonumber(ARGV[7])) + 1
  local pairs_taken = {}
  for i, item in ipairs(again) do pairs_taken[i] = item[1] .. ' ' .. item[1] end
  for rank = 1, 3 do
    local positions = fresh[rank][1]
    if positions then pairs_taken[#pairs_taken + 1] = positions[1] .. ' ' .. positions[#positions] end
  end
  redis.call('HSET', state, 'read', number, 'taken', table.concat(pairs_taken, ' '))
  return number
end

if room < limit and hold_ms <= 0 then
  local number = ordered and note_read() or 0
  -- In the same act: looked at later, one might be free of which others come before those that were leased here.
  local parked = ordered and (parks or '0') ~= ARGV[8] and redis.call('HKEYS', KEYS[8]) or ''
  return { 'got', generation, again, fresh[1], fresh[2], fresh[3], tonumber(parks or 0), number, parked }
end

-- Nothing: say how long until something is due, and after which ids to wait so that nothing can be missed.
local soonest = -1
local function consider(from, to, offset)
  local next_due = redis.call('ZRANGEBYSCORE', leases, from, to, 'WITHSCORES', 'LIMIT', 0, 1)
  if next_due[2] then
    local wait = math.max(0, tonumber(next_due[2]) - offset - now)
    if soonest < 0 or wait < soonest then soonest = wait end
  end
end
if hold_ms > 0 then
  soonest = hold_ms
elseif more_due then
  soonest = 0
else
  consider(0, '(' .. score(BAND), 0)
  consider(score(BAND), '(' .. score(PARKED), BAND)
end
local idle = { 'idle', soonest }
for rank = 1, 3 do
  for _, row in ipairs(redis.call('XINFO', 'GROUPS', streams[rank])) do
    if field(row, 'name') == group then idle[rank + 2] = field(row, 'last-delivered-id') end
  end
end
idle[6] = wake_id()
return idle
