-- One subscription's breaker, shared by all its consumers. Every act answers how the breaker stands afterwards.
-- KEYS[1]  breaker: hash of state (open | probing; absent: closed), until_ms, opens, since_ms, why, prober,
--          prober_until_ms, forced (1 when a person opened it); a closed one keeps opens and since_ms for a while
-- ARGV[1]  act: look | trip | probe | passed | failed | open | close
-- ARGV[2]  consumer   ARGV[3]  now in ms, or empty for the store's own clock
-- ARGV[4]  why   ARGV[5]  first pause in ms   ARGV[6]  longest pause in ms   ARGV[7]  share of the pause, 0 to 1
-- ARGV[8]  how long a consumer may take to say that it still probes, in ms
-- Result   {changed 1|0, state, until_ms, now_ms, opens, since_ms, why, prober, forced 1|0}
local key, act, consumer = KEYS[1], ARGV[1], ARGV[2]
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local found = redis.call('HMGET', key, 'state', 'until_ms', 'opens', 'since_ms', 'why', 'prober', 'prober_until_ms', 'forced')
local state = found[1] or 'closed'
local until_ms, opens, since = tonumber(found[2]) or 0, tonumber(found[3]) or 0, tonumber(found[4]) or now
local why, prober, prober_until = found[5] or '', found[6] or '', tonumber(found[7]) or 0
local forced = found[8] == '1'
local before = state

local function open_for_a_while()
  local first, longest = tonumber(ARGV[5]), tonumber(ARGV[6])
  -- Its pauses begin small again once it has been closed for longer than the longest of them.
  if before == 'closed' and now - since > longest then opens = 0 end
  local pause = math.min(longest, first * 2 ^ math.min(opens, 30)) * tonumber(ARGV[7])
  opens, until_ms, prober = opens + 1, now + math.floor(pause), ''
  state, why, forced = 'open', ARGV[4], false
end

if act == 'trip' and state == 'closed' then
  open_for_a_while()
elseif act == 'probe' then
  local free = (state == 'open' and not forced and now >= until_ms) or (state == 'probing' and now >= prober_until)
  if free or (state == 'probing' and prober == consumer) then
    state, prober, prober_until = 'probing', consumer, now + tonumber(ARGV[8])
  end
elseif act == 'passed' and state == 'probing' and prober == consumer then
  state, prober, why = 'closed', '', ''
elseif act == 'failed' and state == 'probing' and prober == consumer then
  open_for_a_while()
elseif act == 'open' then
  state, until_ms, prober, why, forced = 'open', 0, '', ARGV[4], true
elseif act == 'close' then
  state, opens, prober, why, forced = 'closed', 0, '', ARGV[4], false
end

local changed = before ~= state
if changed and not (before == 'probing' and state == 'open') and not (before == 'open' and state == 'probing') then
  since = now
end
if act ~= 'look' and (changed or act == 'probe' or act == 'open') then
  redis.call('HSET', key, 'state', state, 'until_ms', until_ms, 'opens', opens, 'since_ms', since, 'why', why,
    'prober', prober, 'prober_until_ms', prober_until, 'forced', forced and '1' or '0')
  if state == 'closed' then
    redis.call('PEXPIRE', key, 86400000)
  else
    redis.call('PERSIST', key)
  end
end
return {changed and 1 or 0, state, string.format('%d', until_ms), string.format('%d', now), opens,
  string.format('%d', since), why, prober, forced and 1 or 0}
