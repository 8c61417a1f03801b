-- Applies a batch of verdicts at once: all acks, then every other verdict whose receipt still owns its lease.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 tries · 6 state of the group · 7 wake · 8 dead letters · 9 parked
--       10 aside · 11 heads
-- ARGV  1 group · 2 now in ms, or '' for the server's clock · 3-5 numbers of acks per stream · 6 epoch · the positions
--       of the acks, high ones first · then seven per other verdict:
--       'retry' | 'dead' | 'release' | 'park' | 'begin' · position · token · after ms, or the number of what
--       begins or would have been next, else 0 ·
--       attempt as a JSON array, or '' · record of the dead or of the head that parks its key · key
-- Result  the 1-based numbers, in the order given, of those that were refused: acks of what is settled already, other
--         verdicts whose lease was lost, and what was to be set aside with a key that is not parked (any more), which
--         is released instead; under an old epoch all of them. Setting aside what is set aside with that key is not
--         refused: the answer to the first time may have been lost, and who is refused takes the key for not parked
--         error WRONGTYPE: the key of the dead letters holds something else; nothing was done
--
-- An ack needs no ownership: the handler's effect exists, so nobody else needs to have the message again.

local streams, leases, tries, state = { KEYS[1], KEYS[2], KEYS[3] }, KEYS[4], KEYS[5], KEYS[6]
local group = ARGV[1]
local first_ack = 7
local first_other = first_ack + ARGV[3] + ARGV[4] + ARGV[5]
local counts = { settled = 0, retried = 0, dead = 0, released = 0, parked = 0, parks = 0 }
local refused = {}

if ARGV[6] ~= '' and redis.call('HGET', state, 'epoch') ~= ARGV[6] then
  for i = 1, first_other - first_ack + (#ARGV - first_other + 1) / 7 do refused[i] = i end
  return refused
end

if first_other <= #ARGV then
  local kind = redis.call('TYPE', KEYS[8]).ok
  if kind ~= 'stream' and kind ~= 'none' then return redis.error_reply('WRONGTYPE ' .. KEYS[8] .. ' is a ' .. kind) end
  allow_when_full(leases)
end

-- Acks ARGV[from…to], all of one stream.
local function ack(rank, from, to)
  local ids = { unpack(ARGV, from, to) }
  if rank ~= 2 then
    for i, position in ipairs(ids) do ids[i] = string.sub(position, 1, -2) end
  end
  local known = redis.call('XACK', streams[rank], group, unpack(ids))
  -- The leases hold what the pending lists hold, so the count alone tells when all were still unsettled.
  if known == #ids then
    redis.call('ZREM', leases, unpack(ARGV, from, to))
  else
    known = 0
    for i = from, to do
      if redis.call('ZREM', leases, ARGV[i]) == 1 then
        known = known + 1
      else
        refused[#refused + 1] = i - first_ack + 1
      end
    end
  end
  if redis.call('EXISTS', tries) == 1 then redis.call('HDEL', tries, unpack(ARGV, from, to)) end
  counts.settled = counts.settled + known
end

local at = first_ack
for rank = 1, 3 do
  local stop = at + ARGV[2 + rank]
  -- In steps, because Lua passes only some thousands of arguments to one call.
  for from = at, stop - 1, 1000 do ack(rank, from, math.min(from + 999, stop - 1)) end
  at = stop
end

local others = first_other <= #ARGV
local now = others and clock(ARGV[2])
local generation = others and redis.call('HGET', state, 'generation')

local function note_failure(position, attempt)
  local failed, _, history = tries_of(tries, position)
  note_tries(tries, position, failed + 1, false, history, attempt)
end

-- Those before attempt `number` were made. They may be counted already, where a lease had run out in its holder's hand.
local function note_before(position, number, attempt)
  local failed, _, history = tries_of(tries, position)
  if failed < number - 1 then note_tries(tries, position, number - 1, false, history, attempt) end
end

-- Attempt `number` is about to be made.
local function begin(position, number, attempt)
  note_before(position, number, attempt)
  local failed, begun, history = tries_of(tries, position)
  if failed == number - 1 and not begun then note_tries(tries, position, failed, true, history, '') end
end

local function retry(position, after_ms, attempt)
  note_failure(position, attempt)
  redis.call('ZADD', leases, score(BAND + now + tonumber(after_ms)), position)
  counts.retried = counts.retried + 1
end

local function bury(position, rank, id, record)
  local entry = redis.call('XRANGE', streams[rank], id, id)[1]
  redis.call('XADD', KEYS[8], '*', 'event', entry and entry[2][2] or '', 'record', record, 'position', position)
  redis.call('XACK', streams[rank], group, id)
  redis.call('ZREM', leases, position)
  redis.call('HDEL', tries, position)
  counts.dead = counts.dead + 1
end

local function release(position, id)
  redis.call('ZADD', leases, released_score(id), position)
  counts.released = counts.released + 1
end

-- The head parks its key; what follows is set aside only while the key is parked.
local function park(position, id, number, attempt, record, key)
  if record ~= '' then
    note_failure(position, attempt)
    if redis.call('HSETNX', KEYS[9], key, record) == 1 then
      redis.call('HSET', KEYS[11], key, position)
      counts.parks = counts.parks + 1
    end
  else
    note_before(position, number, attempt)
    if redis.call('HEXISTS', KEYS[9], key) == 0 then
      release(position, id)
      return false
    end
  end
  redis.call('ZADD', leases, score(PARKED + ms_of(id)), position)
  redis.call('ZADD', KEYS[10], 0, aside_member(key, position))
  counts.parked = counts.parked + 1
  return true
end

local function is_aside(position, key)
  local at = tonumber(redis.call('ZSCORE', leases, position) or -1)
  return at >= PARKED and redis.call('ZSCORE', KEYS[10], aside_member(key, position))
    and redis.call('HEXISTS', KEYS[9], key) == 1
end

local ordinal = first_other - first_ack
for i = first_other, #ARGV, 7 do
  ordinal = ordinal + 1
  local verdict, position = ARGV[i], ARGV[i + 1]
  local rank, id = locate(position)
  if not owns(leases, streams[rank], group, position, id, ARGV[i + 2], generation) then
    if verdict ~= 'park' or not is_aside(position, ARGV[i + 6]) then refused[#refused + 1] = ordinal end
  elseif verdict == 'retry' then
    retry(position, ARGV[i + 3], ARGV[i + 4])
  elseif verdict == 'dead' then
    bury(position, rank, id, ARGV[i + 5])
  elseif verdict == 'park' then
    local number, attempt, record, key = tonumber(ARGV[i + 3]), unpack(ARGV, i + 4, i + 6)
    if not park(position, id, number, attempt, record, key) then refused[#refused + 1] = ordinal end
  elseif verdict == 'begin' then
    begin(position, tonumber(ARGV[i + 3]), ARGV[i + 4])
  else
    note_before(position, tonumber(ARGV[i + 3]), ARGV[i + 4])
    release(position, id)
  end
end

for what, number in pairs(counts) do
  if number > 0 then redis.call('HINCRBY', state, what, number) end
end
if counts.retried + counts.released > 0 then wake(KEYS[7]) end
return refused
