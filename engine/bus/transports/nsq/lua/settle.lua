-- Applies a batch of verdicts at once: all acks, then every other verdict whose token still holds the message.
--
-- KEYS  1 state · 2 held · 3 kept · 4 bodies · 5 tries · 6 stale · 7 twice · 8 dead letters · 9 done (see
--       lease.lua; done in sweep.lua)
-- ARGV  1 number of acks · 2 number of late ids · 3 number of ids that may be there twice · 4 the most of these that are
--       known · acks · ids whose copy nsqd may send again · ids of which nsqd may have another copy · then eight per
--       other verdict: 'retry' | 'dead' | 'release' · id · token · after ms · attempt as a JSON array, or '' · record of
--       the dead · score of a release · body
-- Result  the 1-based numbers, in the order given, of those that were refused
--
-- An ack needs no ownership: the handler's effect exists, so nobody else needs to have the message again. What is
-- retried, dead or released lies beside nsqd from then on, and the caller finishes nsqd's copy; should that not arrive,
-- `stale` keeps the copy from being handed out.

local BAND = 10000000000000
local DAY = 86400000
local state, held, kept, bodies, tries, stale, twice, dead, done = unpack(KEYS)
local acks, late, doubled = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local first_late = 5 + acks
local first_doubled = first_late + late
local first_other = first_doubled + doubled
local refused = {}
local counts = { settled = 0, retried = 0, dead = 0, released = 0 }

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local alive = redis.call('EXISTS', state) == 1

if first_other <= #ARGV then
  local kind = redis.call('TYPE', dead).ok
  if kind ~= 'stream' and kind ~= 'none' then return redis.error_reply('WRONGTYPE ' .. dead .. ' is a ' .. kind) end
end

-- Nobody needs the copies any more of what these leases were of.
local function let_go(leases)
  local digests, fields = {}, {}
  for _, lease in ipairs(leases) do
    local digest = string.match(lease, '^%d+ %S+ %d+ =(%x+) ')
    if digest then digests[#digests + 1] = digest end
  end
  if #digests == 0 or not alive then return end
  local known, number = redis.call('HMGET', done, unpack(digests)), {}
  for i, digest in ipairs(digests) do
    number[digest] = (number[digest] or tonumber(string.match(known[i] or '0', '^%d+'))) + 1
  end
  for digest, each in pairs(number) do
    fields[#fields + 1] = digest
    fields[#fields + 1] = string.format('%d %.0f', each, now)
  end
  redis.call('HSET', done, unpack(fields))
end

-- Acks ARGV[from…to].
local function ack(from, to)
  local ids, seen, ended = { unpack(ARGV, from, to) }, {}, {}
  local leased = redis.call('HMGET', held, unpack(ids))
  local beside = redis.call('EXISTS', kept) == 1 and redis.call('ZMSCORE', kept, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    if (leased[i] or beside[i]) and not seen[id] then
      seen[id] = true
      ended[#ended + 1] = leased[i] or nil
      counts.settled = counts.settled + 1
    else
      refused[#refused + 1] = from - 5 + i
    end
  end
  let_go(ended)
  redis.call('HDEL', held, unpack(ids))
  if #beside > 0 then redis.call('ZREM', kept, unpack(ids)) end
  if redis.call('EXISTS', bodies) == 1 then redis.call('HDEL', bodies, unpack(ids)) end
  if redis.call('EXISTS', tries) == 1 then redis.call('HDEL', tries, unpack(ids)) end
end

-- Lua can unpack only so many at once.
for from = 5, first_late - 1, 1000 do ack(from, math.min(from + 999, first_late - 1)) end

local function mark_stale(id)
  if alive then redis.call('ZADD', stale, now, id) end
end

for i = first_late, first_doubled - 1 do mark_stale(ARGV[i]) end

if alive and doubled > 0 then
  for i = first_doubled, first_other - 1 do redis.call('ZADD', twice, now, ARGV[i]) end
  redis.call('ZREMRANGEBYRANK', twice, 0, -1 - ARGV[4])
  redis.call('PEXPIRE', twice, DAY)
end

local function add_try(id, attempt)
  local failed, history = 0, ''
  local record = redis.call('HGET', tries, id)
  if record then failed, history = string.match(record, '^(%d+) (.*)$') end
  if attempt ~= '' then history = history == '' and attempt or history .. ',' .. attempt end
  redis.call('HSET', tries, id, string.format('%d ', failed + 1) .. history)
end

local ordinal = acks
for i = first_other, #ARGV, 8 do
  local verdict, id, token, after_ms, attempt, record, score, body = unpack(ARGV, i, i + 7)
  ordinal = ordinal + 1
  local lease = redis.call('HGET', held, id)
  -- A process that never had the body can settle only what lies here.
  if body == '' then body = redis.call('HGET', bodies, id) end
  if not body or not lease or string.match(lease, '^%d+ (%S+)') ~= token then
    refused[#refused + 1] = ordinal
  else
    let_go({ lease })
    redis.call('HDEL', held, id)
    if not redis.call('ZSCORE', kept, id) then mark_stale(id) end
    if verdict == 'dead' then
      redis.call('XADD', dead, '*', 'position', id, 'event', body, 'record', record)
      redis.call('ZREM', kept, id)
      redis.call('HDEL', bodies, id)
      redis.call('HDEL', tries, id)
      counts.dead = counts.dead + 1
    else
      redis.call('HSET', bodies, id, body)
      if verdict == 'retry' then
        add_try(id, attempt)
        score = string.format('%.0f', now + after_ms + BAND)
        counts.retried = counts.retried + 1
      else
        counts.released = counts.released + 1
      end
      redis.call('ZADD', kept, score, id)
    end
  end
end

if alive then
  for name, number in pairs(counts) do
    if number > 0 then redis.call('HINCRBY', state, name, number) end
  end
end
return refused
