-- Books what nsqd has confirmed: counts it, and makes reservations last for their window or frees them.
--
-- KEYS  1 statistics of the topic · 2 its pace · 3… idempotency keys
-- ARGV  1 token · 2 published · 3 deduplicated · 4 the most entries of the pace · then per key: 'keep' | 'free', digest,
--       message id, window in ms
-- Result  1
--
-- pace    sorted set: second of publishing in ms -> the number of messages published until then, for the age of a backlog

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local published = tonumber(ARGV[2])
if published > 0 then
  local total = redis.call('HINCRBY', KEYS[1], 'published', published)
  redis.call('ZADD', KEYS[2], 'NX', total - published, string.format('%.0f', now - now % 1000))
  if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[4]) then redis.call('ZPOPMIN', KEYS[2]) end
end
if ARGV[3] ~= '0' then redis.call('HINCRBY', KEYS[1], 'deduplicated', ARGV[3]) end
for i = 3, #KEYS do
  local what, digest, message_id, window = unpack(ARGV, 5 + 4 * (i - 3), 8 + 4 * (i - 3))
  local value = redis.call('GET', KEYS[i]) or ''
  local token, claim = string.match(value, '^%? (%S+)(.*)$')
  claim = string.match(claim or '', '^ %d+ (@ .*)$')
  local ours = value == '' or token == ARGV[1]
  if what == 'keep' then
    if ours then
      redis.call('SET', KEYS[i], string.format('= %d ', #digest) .. digest .. message_id, 'PX', window)
    end
  elseif ours and claim then
    -- Its message is still to come.
    redis.call('SET', KEYS[i], claim, 'KEEPTTL')
  elseif ours then
    redis.call('DEL', KEYS[i])
  end
end
return 1
