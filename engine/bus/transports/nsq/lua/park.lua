-- Takes messages that nsqd cannot or should not keep: one that another consumer holds (nsqd would send it again and
-- again), or one whose connection is gone before anybody had it.
--
-- KEYS  1 state · 2 held · 3 kept · 4 bodies · 5 stale · 6 twice · 7 done (see lease.lua; done in sweep.lua)
-- ARGV  four per message: id · score as a released one, or '' when it lies here only for as long as it is held · body ·
--       its digest, or '' where no copies are kept
-- Result  how many lie beside nsqd now; each id is stale for nsqd afterwards, whatever became of it

if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local parked = 0
for i = 1, #ARGV, 4 do
  local id, score, body, digest = unpack(ARGV, i, i + 3)
  local lease = redis.call('HGET', KEYS[2], id)
  local known = redis.call('ZSCORE', KEYS[3], id) or redis.call('ZSCORE', KEYS[5], id)
    or redis.call('ZSCORE', KEYS[6], id)
  -- Held when nsqd sent it and no more: it was settled in between.
  if not known and (lease or score ~= '') then
    if lease then
      score = string.match(lease, '^%d+')
    elseif digest ~= '' then
      local before = string.match(redis.call('HGET', KEYS[7], digest) or '0', '^%d+')
      redis.call('HSET', KEYS[7], digest, string.format('%d %.0f', before + 1, now))
    end
    redis.call('HSET', KEYS[4], id, body)
    redis.call('ZADD', KEYS[3], score, id)
    parked = parked + 1
  end
  redis.call('ZADD', KEYS[5], now, id)
end
return parked
