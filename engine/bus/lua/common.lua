-- What the scripts of the delay path share.
-- refused          hash, place -> JSON {topic, since_ms, tries, next_ms, why} of a message that was refused when due
-- refused topics   hash, topic -> JSON {count, since_ms, why}: how many of its messages are, since when any is, and why
--                  the last of them was

-- A message is refused no more: it was published, cancelled or given up.
local function refused_no_more(refused, topics, place)
  local kept = redis.call('HGET', refused, place)
  if not kept then
    return
  end
  redis.call('HDEL', refused, place)
  local topic = cjson.decode(kept).topic
  local lies = redis.call('HGET', topics, topic)
  if not lies then
    return
  end
  local sum = cjson.decode(lies)
  sum.count = sum.count - 1
  if sum.count > 0 then
    redis.call('HSET', topics, topic, cjson.encode(sum))
  else
    redis.call('HDEL', topics, topic)
  end
end
