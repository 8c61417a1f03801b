-- Appends in order those of a batch that are not stored under a write yet, up to the first that the server refuses.
--
-- KEYS  1-3 streams high, normal, low · 4 statistics of the topic · 5 set: digests of what was stored under the write
--       6 hash: ordering key -> the lane of this run that it belongs to · 7… streams of further partitions
-- ARGV  1 now in ms, or '' for the server's clock · 2 for how long keys 5 and 6 are kept, ms · 3 the lane
--       4 n, how many messages · 5 m, how many ordering keys · 6 '' when all go to the normal stream, else the index of
--       each one's stream in KEYS, JSON · 7… n digests of idempotency keys, m ordering keys, n bodies
-- Result  {stored, known, the server's words, 'closed' where the topic takes nothing, or ''}, or {'lane', ordering key}
--         and nothing was stored

local n, m = tonumber(ARGV[4]), tonumber(ARGV[5])
local window, first_key, before_bodies = ARGV[2], 7 + n, 6 + n + m
local call, run = redis.call, redis.pcall

if call('HEXISTS', KEYS[4], 'closed') == 1 then
  return { 0, 0, 'closed' }
end

local seen = call('SMISMEMBER', KEYS[5], unpack(ARGV, 7, 6 + n))

-- Nothing is stored, for the server has said no before: what lies in front of the first that is missing is there.
local function refused(words)
  local known = 0
  while known < n - 1 and seen[known + 1] == 1 do known = known + 1 end
  return { 0, known, words }
end

if m > 0 then
  local owners = call('HMGET', KEYS[6], unpack(ARGV, first_key, before_bodies))
  local claims = {}
  for i = 1, m do
    if not owners[i] then
      claims[#claims + 1] = ARGV[first_key + i - 1]
      claims[#claims + 1] = ARGV[3]
    elseif owners[i] ~= ARGV[3] then
      return { 'lane', ARGV[first_key + i - 1] }
    end
  end
  local claimed = #claims > 0 and run('HSET', KEYS[6], unpack(claims))
  if type(claimed) == 'table' then return refused(claimed.err) end
  call('PEXPIRE', KEYS[6], window)
end

local fresh, count = {}, 0
for i = 1, n do
  if seen[i] == 0 then
    count = count + 1
    fresh[count] = ARGV[6 + i]
  end
end
-- Before they are appended: what the server has no room to remember must not be stored.
local added = count > 0 and run('SADD', KEYS[5], unpack(fresh)) or 0
if type(added) == 'table' then return refused(added.err) end
if added < count then
  -- Some come more than once in this very batch.
  local met = {}
  for i = 1, n do
    if seen[i] == 0 and met[ARGV[6 + i]] then seen[i] = 1 end
    met[ARGV[6 + i]] = true
  end
end

local streams = ARGV[6] ~= '' and cjson.decode(ARGV[6])
local now = ARGV[1] ~= '' and clock(ARGV[1])
local normal, stored, known, words = KEYS[2], 0, 0, ''
for i = 1, n do
  if seen[i] == 1 then
    known = known + 1
  else
    local stream = streams and KEYS[streams[i]] or normal
    local id = run('XADD', stream, now and next_id(stream, now) or '*', 'event', ARGV[before_bodies + i])
    if type(id) == 'table' then
      words = id.err
      for rest = i, n do
        if seen[rest] == 0 then call('SREM', KEYS[5], ARGV[6 + rest]) end
      end
      break
    end
    stored = stored + 1
  end
end

call('PEXPIRE', KEYS[5], window)
if stored > 0 and call('HINCRBY', KEYS[4], 'published', stored) == stored then incarnation(KEYS[4]) end
if known > 0 then call('HINCRBY', KEYS[4], 'deduplicated', known) end
return { stored, known, words }
