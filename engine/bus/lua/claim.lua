-- Claim due messages for publishing. A claim whose mover died is claimed again when it has run out.
-- KEYS[1]  waiting   KEYS[2]  moving   KEYS[3]  entries (see schedule.lua)
-- ARGV[1]  now in epoch ms   ARGV[2]  length of the claim in ms   ARGV[3]  how many at most
-- Result   id, entry, id, entry, … in order of their due times
local now, limit = ARGV[1], tonumber(ARGV[3])
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit)
local fresh = {}
if #ids < limit then
  fresh = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, limit - #ids)
end
for _, id in ipairs(fresh) do
  redis.call('ZREM', KEYS[1], id)
  ids[#ids + 1] = id
end
local result = {}
for _, id in ipairs(ids) do
  local entry = redis.call('HGET', KEYS[3], id)
  if entry then
    redis.call('ZADD', KEYS[2], now + ARGV[2], id)
    result[#result + 1] = id
    result[#result + 1] = entry
  else
    redis.call('ZREM', KEYS[2], id)
  end
end
return result
