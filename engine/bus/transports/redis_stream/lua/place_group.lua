-- Makes a group on the three streams of its topic, or moves it.
--
-- KEYS  1-3 streams high, normal, low · 4 leases · 5 tries · 6 state of the group · 7 wake · 8 dead letters · 9 parked
--       10 aside · 11 heads · 12 statistics of the topic
-- ARGV  1 group · 2 a generation never used before · 3 'create', 'heal' or 'seek' · 4-6 ids after which it starts
--       7-9 how many entries of each stream lie up to there, or '' when unknown (keeps the server's own lag exact)
--       10 incarnation of the topic in which those ids were seen, or '' when unknown
-- Result  1 when something was made or moved, 0 when all was there
--         error GROUPLOST: there is nothing to move
--
-- 'heal' is 'create' at ids that were seen in these streams. Where the topic is in another incarnation, or a stream's
-- last id is smaller, it was emptied since and begins anew, perhaps on a machine whose clock is behind: all that it
-- holds is unsettled.
-- After a seek, what is unsettled is exactly what lies after the new place: earlier leases, retries and parked keys are
-- dropped.

local group, generation, mode = ARGV[1], ARGV[2], ARGV[3]
local known = redis.call('HEXISTS', KEYS[6], 'generation') == 1
if mode == 'seek' and not known then return redis.error_reply('GROUPLOST the group has no state') end

if mode == 'seek' or not known then
  for rank = 1, 3 do redis.pcall('XGROUP', 'DESTROY', KEYS[rank], group) end
  redis.call('DEL', KEYS[4], KEYS[5], KEYS[9], KEYS[10], KEYS[11])
  if known then redis.call('HINCRBY', KEYS[6], 'parks', 1) end
end

local anew = incarnation(KEYS[12]) ~= ARGV[10] and ARGV[10] ~= ''

local function make(rank)
  local key, id, read = KEYS[rank], ARGV[3 + rank], ARGV[6 + rank]
  if mode == 'heal' then
    local info = redis.pcall('XINFO', 'STREAM', key)
    local last = info.err and '0-0' or field(info, 'last-generated-id')
    if anew or before(last, id) then id, read = '0-0', '' end
  end
  local reply
  if read ~= '' then
    reply = redis.pcall('XGROUP', 'CREATE', key, group, id, 'MKSTREAM', 'ENTRIESREAD', read)
  end
  -- Before 7.0 there is no ENTRIESREAD.
  if not reply or (reply.err and string.find(reply.err, 'syntax', 1, true)) then
    reply = redis.pcall('XGROUP', 'CREATE', key, group, id, 'MKSTREAM')
  end
  if reply.err and string.sub(reply.err, 1, 9) ~= 'BUSYGROUP' then return nil, reply end
  return not reply.err
end

local made = false
for rank = 1, 3 do
  local new, problem = make(rank)
  if problem then return problem end
  made = made or new
end
if made then
  redis.call('HSET', KEYS[6], 'generation', generation)
  wake(KEYS[7])
end
return made and 1 or 0
