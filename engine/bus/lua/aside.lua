-- Put claimed messages aside that may not go before others of their topic. What is claimed anew by another stays.
-- KEYS[1]  moving (see schedule.lua)
-- KEYS[2]  lane of the topic: sorted set, member place, score due time in epoch ms; all of it is due
-- KEYS[3]  lanes: sorted set, member topic, score the due time of the first in its lane, or of one that was cancelled
-- KEYS[4]  sent: set of places whose messages may be published by now, so that nobody is told they were cancelled
-- ARGV[1]  topic   ARGV[2…] per message: place, end of its claim in epoch ms, '1' if it may have been sent or '', due
--          time
-- Result   how many were put aside
local count = 0
for at = 2, #ARGV, 4 do
  local place, ends, sent, due = unpack(ARGV, at, at + 3)
  if tonumber(redis.call('ZSCORE', KEYS[1], place)) == tonumber(ends) then
    redis.call('ZREM', KEYS[1], place)
    redis.call('ZADD', KEYS[2], due, place)
    if sent == '1' then
      redis.call('SADD', KEYS[4], place)
    end
    count = count + 1
  end
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if first[1] then
  redis.call('ZADD', KEYS[3], first[2], ARGV[1])
end
return count
