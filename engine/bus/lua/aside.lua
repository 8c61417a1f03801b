-- Put claimed messages aside that may not go before others of their topic.
-- KEYS[1]  moving (see schedule.lua)
-- KEYS[2]  lane of the topic: sorted set, member place, score due time in epoch ms; all of it is due
-- KEYS[3]  lanes: sorted set, member topic, score the due time of the first in its lane, or of one that was cancelled
-- ARGV[1]  topic   ARGV[2…] per message: place, due time
-- Result   how many were put aside
local count = 0
for at = 2, #ARGV, 2 do
  if redis.call('ZREM', KEYS[1], ARGV[at]) == 1 then
    redis.call('ZADD', KEYS[2], ARGV[at + 1], ARGV[at])
    count = count + 1
  end
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if first[1] then
  redis.call('ZADD', KEYS[3], first[2], ARGV[1])
end
return count
