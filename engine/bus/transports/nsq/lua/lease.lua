-- Leases messages for one consumer: what is kept beside nsqd and due first, then those nsqd has just sent. Never blocks.
--
-- KEYS  1 state of the group · 2 held · 3 kept · 4 bodies · 5 tries · 6 stale · 7 twice · 8 again
-- ARGV  1 token · 2 consumer · 3 limit (at most 500) · 4 lease in ms · 5 number of ids · ids nsqd has sent, at most
--       `limit` of them · the digest of each body, or '' where no copies are kept
-- Result  {'got', ms until something kept is due or -1, kept, fresh}: `kept` holds {id, body, failed attempts, history};
--           `fresh` one answer per id: 0 yours, a first attempt · {failed attempts, history} yours, after failures ·
--           1 no use any more: finish it · 2 it is held: park it · 3 no room now
--         {'paused'} · error GROUPLOST
--
-- held    hash: id -> "<deadline ms> <token> <handed out at ms> =<digest> <consumer>" of every live or lapsed lease. The
--         digest is there while only the topic's copies have its body: see sweep.lua
-- kept    sorted set of ids whose body lies beside nsqd. The score says the state, as in the Redis Streams transport:
--           released  published ms - BAND  (below 0)       · leased  deadline  [0, BAND)
--           retrying  due ms + BAND        (BAND and above)
-- tries   hash: id -> "<failed attempts> <history: JSON arrays joined by commas>"
-- stale   sorted set: id -> ms since when nsqd's copy, should it come (again), is not to be handed out
-- twice   sorted set: id -> ms when it was settled, the latest of which there may be a second copy, which is not to be
--           handed out: nsqd was killed and put it into the channel twice, or another consumer's connection broke

local BAND = 10000000000000
local state, held, kept, bodies, tries, stale, twice, again = unpack(KEYS)
local token, owner, limit, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local generation, paused = unpack(redis.call('HMGET', state, 'generation', 'paused'))
if not generation then return redis.error_reply('GROUPLOST the group has no state') end
if paused then return { 'paused' } end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = string.format('%.0f', now + lease_ms)
local mine = deadline .. ' ' .. token .. ' ' .. string.format('%.0f', now) .. ' ='

local function tried(id)
  local record = redis.call('HGET', tries, id)
  if not record then return 0, '' end
  local failed, history = string.match(record, '^(%d+) (.*)$')
  return tonumber(failed), history
end

local function digest_in(record) return string.match(record, '^%d+ %S+ %d+ =(%x*) ') or '' end

-- The lease that `record` tells of ran out: that is a failed attempt of whoever had it.
local function lapse(id, record)
  local failed, history = tried(id)
  failed = failed + 1
  local ran_out, since, who = string.match(record, '^(%d+) %S+ (%d+) (.*)$')
  -- Leases of an earlier release have no digest.
  who = string.match(who, '^=%x* (.*)$') or who
  local attempt = string.format('[%d,%s,%.0f,%s,"lease ran out"]', failed, ran_out, (ran_out - since) * 1000,
    cjson.encode(who))
  history = history == '' and attempt or history .. ',' .. attempt
  redis.call('HSET', tries, id, failed .. ' ' .. history)
  redis.call('HINCRBY', state, 'lapsed', 1)
  return failed, history
end

local from_beside, room = {}, limit
local function take_due(from, to)
  if room <= 0 then return end
  local due = redis.call('ZRANGEBYSCORE', kept, from, to, 'WITHSCORES', 'LIMIT', 0, room)
  for i = 1, #due, 2 do
    local id, at = due[i], tonumber(due[i + 1])
    local body = redis.call('HGET', bodies, id)
    local failed, history
    local record = at >= 0 and at < BAND and redis.call('HGET', held, id)
    local digest = ''
    if record then
      failed, history = lapse(id, record)
      digest = digest_in(record)
    else
      failed, history = tried(id)
    end
    redis.call('HSET', held, id, mine .. digest .. ' ' .. owner)
    redis.call('ZADD', kept, deadline, id)
    from_beside[#from_beside + 1] = { id, body, failed, history }
    room = room - 1
  end
end
if redis.call('EXISTS', kept) == 1 then
  take_due('-inf', string.format('%.0f', now))
  take_due(string.format('%.0f', BAND), string.format('%.0f', BAND + now))
end

local fresh, members = {}, {}
local number = tonumber(ARGV[5])
if number > 0 then
  local ids, digests = { unpack(ARGV, 6, 5 + number) }, { unpack(ARGV, 6 + number) }
  local known = redis.call('HMGET', held, unpack(ids))
  local beside = redis.call('EXISTS', kept) == 1 and redis.call('ZMSCORE', kept, unpack(ids)) or {}
  local useless = redis.call('EXISTS', stale) == 1 and redis.call('ZMSCORE', stale, unpack(ids)) or {}
  local settled = redis.call('EXISTS', twice) == 1 and redis.call('ZMSCORE', twice, unpack(ids)) or {}
  local offered = redis.call('EXISTS', again) == 1 and redis.call('HMGET', again, unpack(digests)) or {}
  local seen, passed = {}, {}
  local failures = redis.call('EXISTS', tries) == 1
  -- Whether its copy was handed out instead.
  local function was_offered(i, id)
    local left, highest = string.match(redis.call('HGET', again, digests[i]) or '', '^(%d+) (%x+)$')
    if not left or id > highest then return false end
    if left == '1' then
      redis.call('HDEL', again, digests[i])
    else
      redis.call('HSET', again, digests[i], string.format('%d ', left - 1) .. highest)
    end
    -- It may come twice, with this call as well.
    redis.call('ZADD', stale, now, id)
    passed[id] = true
    return true
  end
  for i, id in ipairs(ids) do
    local answer = 0
    if useless[i] or settled[i] or beside[i] or passed[id] then
      answer = 1
    elseif offered[i] and not known[i] and was_offered(i, id) then
      answer = 1
    elseif seen[id] then
      -- Two copies came together. To finish one is to finish the other as well: it must lie here first.
      answer = 2
    elseif room <= 0 then
      answer = 3
    elseif known[i] and tonumber(string.match(known[i], '^%d+')) > now then
      answer = 2
    elseif known[i] then
      answer = { lapse(id, known[i]) }
    elseif failures then
      local failed, history = tried(id)
      if failed > 0 then answer = { failed, history } end
    end
    if answer == 0 or type(answer) == 'table' then
      seen[id] = true
      members[#members + 1] = id
      -- A lease that ran out may have its body here by now.
      local digest = known[i] and digest_in(known[i]) or digests[i]
      members[#members + 1] = mine .. digest .. ' ' .. owner
      room = room - 1
    end
    fresh[i] = answer
  end
  if #members > 0 then redis.call('HSET', held, unpack(members)) end
end

local soonest = -1
local function consider(from, to, offset)
  local next_due = redis.call('ZRANGEBYSCORE', kept, from, to, 'WITHSCORES', 'LIMIT', 0, 1)
  if next_due[2] then
    local wait = math.max(0, tonumber(next_due[2]) - offset - now)
    if soonest < 0 or wait < soonest then soonest = wait end
  end
end
if redis.call('EXISTS', kept) == 1 then
  consider('-inf', '(' .. string.format('%.0f', BAND), 0)
  consider(string.format('%.0f', BAND), '+inf', BAND)
end
return { 'got', soonest, from_beside, fresh }
