-- Claim the first of what was put aside in a topic.
-- KEYS[1]  lane of the topic   KEYS[2]  lanes (see aside.lua)   KEYS[3]  moving   KEYS[4]  entries (see schedule.lua)
-- ARGV[1]  topic   ARGV[2]  end of the claim in epoch ms   ARGV[3]  how many at most
-- Result   place, entry, due time, place, entry, due time, … in order of their due times
local found = redis.call('ZRANGE', KEYS[1], 0, ARGV[3] - 1, 'WITHSCORES')
local result = {}
for at = 1, #found, 2 do
  local place = found[at]
  redis.call('ZREM', KEYS[1], place)
  local entry = redis.call('HGET', KEYS[4], place)
  if entry then
    redis.call('ZADD', KEYS[3], ARGV[2], place)
    result[#result + 1] = place
    result[#result + 1] = entry
    result[#result + 1] = found[at + 1]
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if first[1] then
  redis.call('ZADD', KEYS[2], first[2], ARGV[1])
else
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return result
