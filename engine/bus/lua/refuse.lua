-- Put claimed messages back that were refused, in the same order, each for longer than the time before. What is claimed
-- anew by another stays.
-- KEYS[1]  waiting   KEYS[2]  moving (see schedule.lua)   KEYS[3]  sent (see aside.lua)
-- KEYS[4]  refused   KEYS[5]  refused topics (see common.lua)
-- ARGV[1]  now in epoch ms   ARGV[2]  the first pause in ms   ARGV[3]  the longest one
-- ARGV[4…] per message: place, end of its claim in epoch ms, '1' if it may have been sent or '', topic, why
-- Result   per message: when it is tried again in epoch ms if that it is refused for this is news, 0 if it was told
--          before, or the claim is another's by now; and how often it was refused
local now, first, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local results = {}
for at = 4, #ARGV, 5 do
  local place, ends, sent, topic, why = unpack(ARGV, at, at + 4)
  local news, tries = 0, 0
  if tonumber(redis.call('ZSCORE', KEYS[2], place)) == tonumber(ends) then
    redis.call('ZREM', KEYS[2], place)
    local lies = redis.call('HGET', KEYS[4], place)
    local told = lies and cjson.decode(lies) or { topic = topic, since_ms = now, tries = 0, why = '' }
    told.next_ms = now + math.min(first * 2 ^ math.min(told.tries, 30), most)
    told.tries = told.tries + 1
    -- A double has room for so small a part of a millisecond.
    redis.call('ZADD', KEYS[1], told.next_ms - (#ARGV - at - 4) / 5 / 4096, place)
    if sent == '1' then
      redis.call('SADD', KEYS[3], place)
    end
    if not lies or told.why ~= why then
      news = told.next_ms
      told.why = why
      local sums = redis.call('HGET', KEYS[5], told.topic)
      local sum = sums and cjson.decode(sums) or { count = 0, since_ms = now }
      if not lies then
        sum.count = sum.count + 1
      end
      sum.why = why
      redis.call('HSET', KEYS[5], told.topic, cjson.encode(sum))
    end
    redis.call('HSET', KEYS[4], place, cjson.encode(told))
    tries = told.tries
  end
  results[#results + 1] = news
  results[#results + 1] = tries
end
return results
