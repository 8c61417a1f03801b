-- Put in front of every other script by scripts.py: the few words they share.
--
-- position  "<ms>-<seq>" of the normal stream, with an "h" or "l" behind it for the high and the low one.
-- leases    one sorted set per group; a member is a position that was handed out and is not settled, and its score
--           says both in which of four states it is and since or until when. Being one score, it is always
--           in exactly one of them:
--             released   id's own ms - BAND      (below 0)       may be handed out at once; thousandths keep the order
--             leased     deadline in ms          [0, BAND)       owned until then
--             retrying   due time in ms + BAND   [BAND, PARKED)  failed, next attempt at its due time
--             parked     id's own ms + PARKED    (PARKED and above) set aside with its key, until somebody decides
-- tries     hash: position -> "<failed attempts> <history: JSON arrays joined by commas>", failed messages only. A zero
--           before the number says that the attempt after these has begun, in an ordered group; whoever does not know
--           of it reads the same number.
-- token     "<times handed out>|<generation>": names one handing-out; whoever shows an older one owns nothing.
-- epoch     of an ordered group's partition, kept in `state` with each new owner; '' from who reads under no lease.
-- parked    hash: key -> record of why its head failed for good. `state` counts its changes in `parks`.
-- heads     hash: key -> position of that head. What is set aside later may lie before it: it was tried again out of
--           order, or comes from another stream. A key without an entry was parked by an earlier release: its head is
--           the first in `aside`.
-- aside     sorted set of the parked positions, all of score 0: "<key>\0<ms, 19 digits>-<seq, 20 digits>", with the "h" or
--           "l" of the position. A null in a key, which only foreign writers put there, is "\0\1": no key's members lie
--           among those of another.

local BAND = 10000000000000
local PARKED = 3 * BAND

local function clock(injected)
  if injected ~= '' then return tonumber(injected) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function score(ms)
  return string.format('%.0f', ms)
end

-- Rank of the stream (1 high, 2 normal, 3 low) and id of the entry.
local function locate(position)
  local last = string.byte(position, -1)
  if last == 104 then return 1, string.sub(position, 1, -2) end
  if last == 108 then return 3, string.sub(position, 1, -2) end
  return 2, position
end

-- An id's own ms where a score is made of it. Whoever writes an entry may choose its id: what claims to be of the year
-- 2286 or later, and all that comes after it, must not leave its band.
local function ms_of(id)
  return math.min(tonumber(string.match(id, '^%d+')), BAND - 1)
end

-- What is known of a message's attempts: how many failed, whether another has begun, and the history.
local function tries_of(tries, position)
  local record = redis.call('HGET', tries, position)
  if not record then return 0, false, '' end
  local failed, history = string.match(record, '^(%d+) (.*)$')
  return tonumber(failed), string.byte(failed) == 48, history
end

-- Notes them; `attempt` is one more of the history as a JSON array, or ''.
local function note_tries(tries, position, failed, begun, history, attempt)
  if attempt ~= '' then history = history == '' and attempt or history .. ',' .. attempt end
  redis.call('HSET', tries, position, string.format(begun and '0%d ' or '%d ', failed) .. history)
  return failed, history
end

-- Score of a released entry: in the order of publishing, before everything that is leased or retrying.
local function released_score(id)
  local seq = string.match(id, '%d+$')
  return string.format('%.3f', ms_of(id) - BAND + math.min(tonumber(seq), 999) / 1000)
end

-- What the members of one key in `aside` begin with.
local function aside_prefix(key)
  return string.gsub(key, '%z', '\0\1') .. '\0'
end

-- Member of `aside`: sorts by key, then in the order of publishing.
local function aside_member(key, position)
  local ms, seq, mark = string.match(position, '^(%d+)-(%d+)(%a?)$')
  return aside_prefix(key) .. string.rep('0', 19 - #ms) .. ms .. '-' .. string.rep('0', 20 - #seq) .. seq .. mark
end

-- Whether id `a` lies before id `b`.
local function before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
  return a_ms < b_ms or (a_ms == b_ms and tonumber(a_seq) < tonumber(b_seq))
end

-- The name of this life of a topic, kept in its statistics: a store that was flushed begins another one.
local function incarnation(stats)
  local known = redis.call('HGET', stats, 'incarnation')
  if known then return known end
  local time = redis.call('TIME')
  local new = string.format('%x%05x', time[1], time[2])
  redis.call('HSET', stats, 'incarnation', new)
  return new
end

-- Consumers that wait look again.
local function wake(key)
  redis.call('XADD', key, 'MAXLEN', 1, '*', 'look', 'again')
end

-- Settling and extending must work when the store is full, or nothing would ever drain. A server over its memory limit
-- lets a script finish that has begun with a write which takes no memory; this one removes nothing.
local function allow_when_full(leases)
  redis.call('ZREM', leases, '')
end

-- Field `name` of a flat reply such as one row of XINFO GROUPS.
local function field(row, name)
  for i = 1, #row, 2 do
    if row[i] == name then return row[i + 1] end
  end
  return false
end

-- Whether `token` names the handing-out that holds the lease now; nobody owns anything in a group that is gone.
local function owns(leases, stream, group, position, id, token, generation)
  local at = tonumber(redis.call('ZSCORE', leases, position) or -1)
  if at < 0 or at >= BAND then return false end
  local pending = redis.pcall('XPENDING', stream, group, id, id, 1)[1]
  return pending ~= nil and pending[4] .. '|' .. generation == token
end

-- The id of the first entry after another; nil after the last id there can be, behind which XRANGE refuses to look.
local function first_after(stream, id)
  if id == '18446744073709551615-18446744073709551615' then return nil end
  local entry = redis.call('XRANGE', stream, '(' .. id, '+', 'COUNT', 1)[1]
  return entry and entry[1]
end

-- The next id under an injected clock, as '*' gives it under the server's own: where the clock ran back, it stays in
-- the last entry's millisecond. Redis 6.2 knows no '<ms>-*'.
local function next_id(stream, now)
  local state = redis.pcall('XINFO', 'STREAM', stream)
  if state.err then return score(now) .. '-0' end
  local last_ms, last_seq = string.match(field(state, 'last-generated-id'), '^(%d+)-(%d+)$')
  if tonumber(last_ms) < now then return score(now) .. '-0' end
  return last_ms .. '-' .. score(tonumber(last_seq) + 1)
end
