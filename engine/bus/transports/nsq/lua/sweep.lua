-- Goes over the copies of what was published, for one group: what it is done with is let go, what somebody has in hand
-- gets a body of its own beside nsqd, and what nsqd seems to have lost is handed out from its copy.
--
-- KEYS  1 state · 2 held · 3 kept · 4 bodies · 5 tries · 6 stale · 7 done · 8 again · 9 copies · 10 cursors · 11 groups of
--       the topic (see lease.lua)
-- ARGV  1 group · 2 the copy it came to last time, or '0-0' · 3 the last copy of this time; the same when there is none ·
--       4 ms: what nsqd took back before, it has sent again · 5 id: the copies of smaller ones have been gone over ·
--       6 where to go on forgetting · 7 ms by which one who holds a lease may be late · then five per message of these
--       copies: digest · id and score to hand it out with · highest id it can have with nsqd · body, or '' to learn
--       whether it is wanted
-- Result  {'moved'}: another consumer was faster · {'wanted', numbers (from 1) of those that somebody has in hand, numbers
--           of those that nobody is known to have}: nothing was done, the bodies of all these are needed ·
--           {'done', handed out from their copies, ids of the vanished, how many may have vanished, where to go on
--           forgetting} · error GROUPLOST
--
-- copies   stream of the topic: field "b" holds what went to nsqd with one call
-- cursors  hash: group -> the last copy it has gone over; what all groups have gone over is removed
-- done     hash: digest -> "<number> <ms of the latest>" of messages that the group needs no copy of any more, and whose
--          copy it has not gone over yet
-- A lease whose digest is gone has a body in `bodies`, though it is not in `kept` while it runs.

local state, held, kept, bodies, tries, stale, done, again, copies, cursors, groups = unpack(KEYS)
local group, from, to, gone_ms, behind, scan, late_ms =
  ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6], tonumber(ARGV[7])
local FIRST, DAY, FORGET, MOST = 8, 86400000, 1000, 1000

if redis.call('EXISTS', state) == 0 then return redis.error_reply('GROUPLOST the group has no state') end
if (redis.call('HGET', cursors, group) or '0-0') ~= from then return { 'moved' } end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local number = (#ARGV - FIRST + 1) / 5

local function arg(i, which) return ARGV[FIRST + 5 * (i - 1) + which] end

local leases
-- Ids of leases that only the copies have the bodies of, by digest.
local function in_hand()
  local found = {}
  leases = leases or redis.call('HGETALL', held)
  for i = 1, #leases, 2 do
    local digest = string.match(leases[i + 1], '^%d+ %S+ %d+ =(%x+) ')
    if digest then
      found[digest] = found[digest] or {}
      table.insert(found[digest], leases[i])
    end
  end
  return found
end

-- What becomes of each message.
local left, mine, others = {}, {}, {}
local wanted_mine, wanted_others = {}, {}
if number > 0 then
  local digests, by_digest = {}, nil
  for i = 1, number do digests[i] = arg(i, 0) end
  local known = redis.call('HMGET', done, unpack(digests))
  for i, digest in ipairs(digests) do
    local count, at = string.match(known[i] or '', '^(%d+) (%d+)$')
    left[digest] = left[digest] or { count = tonumber(count or 0), at = at, before = tonumber(count or 0) }
    if left[digest].count > 0 then
      left[digest].count = left[digest].count - 1
    else
      by_digest = by_digest or in_hand()
      local id = by_digest[digest] and table.remove(by_digest[digest])
      local to_know = arg(i, 4) == ''
      if id then
        mine[#mine + 1] = { i, id }
        if to_know then wanted_mine[#wanted_mine + 1] = i end
      else
        others[#others + 1] = i
        if to_know then wanted_others[#wanted_others + 1] = i end
      end
    end
  end
end
if #wanted_mine + #wanted_others > 0 then return { 'wanted', wanted_mine, wanted_others } end

for digest, each in pairs(left) do
  if each.count == 0 and each.before > 0 then
    redis.call('HDEL', done, digest)
  elseif each.count < each.before then
    redis.call('HSET', done, digest, string.format('%d ', each.count) .. each.at)
  end
end
for _, each in ipairs(mine) do
  local i, id = unpack(each)
  redis.call('HSET', bodies, id, arg(i, 4))
  local record = redis.call('HGET', held, id)
  redis.call('HSET', held, id, (string.gsub(record, '^(%d+ %S+ %d+ =)%x+', '%1', 1)))
  leases = nil
end
for _, i in ipairs(others) do
  local digest, id, score = arg(i, 0), arg(i, 1), arg(i, 2)
  redis.call('HSET', bodies, id, arg(i, 4))
  redis.call('ZADD', kept, score, id)
  local count = string.match(redis.call('HGET', again, digest) or '0', '^%d+')
  redis.call('HSET', again, digest, string.format('%d ', count + 1) .. arg(i, 3))
  redis.call('PEXPIRE', again, DAY)
end
if #others > 0 then redis.call('HINCRBY', state, 'recovered', #others) end

-- Whose lease ran out though nsqd should have sent it again by now.
local newest = redis.call('XREVRANGE', copies, '+', '-', 'COUNT', 1)[1]
local gone_over = not newest or newest[1] == to
leases = leases or redis.call('HGETALL', held)
local missing, vanished = 0, {}
for i = 1, #leases, 2 do
  local id = leases[i]
  local deadline = tonumber(string.match(leases[i + 1], '^%d+'))
  if deadline + late_ms < now and not redis.call('ZSCORE', kept, id) then
    if redis.call('HEXISTS', bodies, id) == 1 then
      redis.call('ZADD', kept, string.format('%.0f', deadline), id)
      redis.call('ZADD', stale, now, id)
    elseif (gone_over or id < behind) and deadline + late_ms >= gone_ms then
      missing = missing + 1
    elseif (gone_over or id < behind) and #vanished < MOST then
      vanished[#vanished + 1] = id
    end
  end
end
if #vanished > 0 then
  redis.call('HDEL', held, unpack(vanished))
  redis.call('HDEL', tries, unpack(vanished))
  redis.call('HINCRBY', state, 'vanished', #vanished)
end

redis.call('ZREMRANGEBYSCORE', stale, '-inf', string.format('%.0f', now - DAY))

-- What was done before the last copy was made has no copy ahead. One is made while its message is on its way to nsqd.
local before = string.match(to, '^%d+') - late_ms
if gone_over then before = now - late_ms end
local at, flat = unpack(redis.call('HSCAN', done, scan, 'COUNT', FORGET))
for i = 1, #flat, 2 do
  if tonumber(string.match(flat[i + 1], '%d+$')) < before then redis.call('HDEL', done, flat[i]) end
end

if to ~= from then
  redis.call('HSET', cursors, group, to)
  local function parts(id)
    local ms, seq = string.match(id, '^(%d+)-(%d+)$')
    return tonumber(ms), tonumber(seq)
  end
  local least_ms, least_seq = parts(to)
  for _, each in ipairs(redis.call('SMEMBERS', groups)) do
    local ms, seq = parts(redis.call('HGET', cursors, each) or '0-0')
    if ms < least_ms or (ms == least_ms and seq < least_seq) then
      least_ms, least_seq = ms, seq
    end
  end
  redis.call('XTRIM', copies, 'MINID', string.format('%.0f-%.0f', least_ms, least_seq + 1))
end
return { 'done', #others, vanished, missing, at }
