-- Claim due messages for publishing. A claim whose mover died is claimed again when it has run out.
-- KEYS[1]  waiting   KEYS[2]  moving   KEYS[3]  entries (see schedule.lua)
-- ARGV[1]  now in epoch ms   ARGV[2]  length of the claim in ms   ARGV[3]  how many at most
-- Result   place, entry, place, entry, … in order of their due times
local now, limit = ARGV[1], tonumber(ARGV[3])
local places = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit)
local fresh = {}
if #places < limit then
  fresh = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, limit - #places)
end
for _, place in ipairs(fresh) do
  redis.call('ZREM', KEYS[1], place)
  places[#places + 1] = place
end
local result = {}
for _, place in ipairs(places) do
  local entry = redis.call('HGET', KEYS[3], place)
  if entry then
    redis.call('ZADD', KEYS[2], now + ARGV[2], place)
    result[#result + 1] = place
    result[#result + 1] = entry
  else
    redis.call('ZREM', KEYS[2], place)
  end
end
return result
