-- Give what a release without places kept under bare message ids the place of its message.
-- KEYS[1]  waiting   KEYS[2]  moving   KEYS[3]  entries (see schedule.lua)
-- ARGV     per entry: id, SHA-1 of the entry as it was read, place, digest of its message
-- Result   per entry: 1 it lies at its place, now or since another gave it that; 0 it stays where it is
--
-- An entry of such a release has no digest: it begins with the first byte of a MessagePack array, which is above 127.

local results = {}
for at = 1, #ARGV, 4 do
  local id, read, place, digest = unpack(ARGV, at, at + 3)
  local entry = redis.call('HGET', KEYS[3], id)
  local moved = 0
  if not entry then
    moved = redis.call('HEXISTS', KEYS[3], place)
  elseif redis.sha1hex(entry) == read then
    moved = redis.call('HSETNX', KEYS[3], place, digest .. '\0' .. entry)
    if moved == 1 then
      redis.call('HDEL', KEYS[3], id)
      for number = 1, 2 do
        local score = redis.call('ZSCORE', KEYS[number], id)
        if score then
          redis.call('ZADD', KEYS[number], score, place)
          redis.call('ZREM', KEYS[number], id)
        end
      end
    end
  end
  results[#results + 1] = moved
end
return results
