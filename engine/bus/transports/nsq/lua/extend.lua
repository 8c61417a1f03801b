-- Renews leases that are still held under the token shown.
--
-- KEYS  1 held · 2 kept (see lease.lua)
-- ARGV  1 lease in ms · then id and token of each
-- Result  the 1-based numbers of those that were refused

local time = redis.call('TIME')
local deadline = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
local refused = {}
for i = 2, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  local lease = redis.call('HGET', KEYS[1], id)
  if lease and string.match(lease, '^%d+ (%S+)') == token then
    redis.call('HSET', KEYS[1], id, deadline .. string.match(lease, '^%d+( .*)$'))
    redis.call('ZADD', KEYS[2], 'XX', deadline, id)
  else
    refused[#refused + 1] = i / 2
  end
end
return refused
