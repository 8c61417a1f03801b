-- Claim due messages for publishing. A claim whose mover died is claimed again when it has run out.
-- KEYS[1]  waiting   KEYS[2]  moving   KEYS[3]  entries (see schedule.lua)
-- ARGV[1]  now in epoch ms   ARGV[2]  end of the claim in epoch ms   ARGV[3]  how many at most
-- Result   place, entry, due time, place, entry, due time, …: first those whose claim ran out, with an empty due time,
--          then the others in order of theirs
local now, limit = ARGV[1], tonumber(ARGV[3])
local places, due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit), {}
if #places < limit then
  local fresh = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit - #places)
  for at = 1, #fresh, 2 do
    redis.call('ZREM', KEYS[1], fresh[at])
    places[#places + 1] = fresh[at]
    due[#places] = fresh[at + 1]
  end
end
local result = {}
for at, place in ipairs(places) do
  local entry = redis.call('HGET', KEYS[3], place)
  if entry then
    redis.call('ZADD', KEYS[2], ARGV[2], place)
    result[#result + 1] = place
    result[#result + 1] = entry
    result[#result + 1] = due[at] or ''
  else
    redis.call('ZREM', KEYS[2], place)
  end
end
return result
