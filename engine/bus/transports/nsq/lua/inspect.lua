-- One consistent picture of what the side store knows of a group.
--
-- KEYS  1 state · 2 held · 3 kept · 4 dead letters · 5 statistics of the topic · 6 its pace (see lease.lua, confirm.lua)
-- ARGV  1 how many messages nsqd has never been told to forget and nobody holds, or '' when nobody asked
-- Result  {paused, nsqd's leased, nsqd's lapsed, kept leased, kept lapsed, retrying, released, dead, smallest id or '',
--           ms of the oldest of those in ARGV 1, or -1}, or error GROUPLOST

local BAND = 10000000000000
local generation, paused = unpack(redis.call('HMGET', KEYS[1], 'generation', 'paused'))
if not generation then return redis.error_reply('GROUPLOST the group has no state') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local beside, smallest = {}, ''
local released = redis.call('ZCOUNT', KEYS[3], '-inf', '(0')
local retrying = redis.call('ZCOUNT', KEYS[3], string.format('%.0f', BAND), '+inf')
for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
  beside[id] = true
  if smallest == '' or id < smallest then smallest = id end
end

local leased, lapsed, kept_leased, kept_lapsed = 0, 0, 0, 0
local flat = redis.call('HGETALL', KEYS[2])
for i = 1, #flat, 2 do
  local id, live = flat[i], tonumber(string.match(flat[i + 1], '^%d+')) > now
  if smallest == '' or id < smallest then smallest = id end
  if beside[id] then
    if live then kept_leased = kept_leased + 1 else kept_lapsed = kept_lapsed + 1 end
  else
    if live then leased = leased + 1 else lapsed = lapsed + 1 end
  end
end

local oldest = -1
if ARGV[1] ~= '' and tonumber(ARGV[1]) > 0 then
  local total = tonumber(redis.call('HGET', KEYS[5], 'published') or 0)
  -- The last second that began with no more published than the first of them.
  local found = redis.call('ZREVRANGEBYSCORE', KEYS[6], total - ARGV[1], '-inf', 'LIMIT', 0, 1)
  oldest = tonumber(found[1] or redis.call('ZRANGE', KEYS[6], 0, 0)[1] or -1)
end
return { paused and 1 or 0, leased, lapsed, kept_leased, kept_lapsed, retrying, released,
  redis.call('XLEN', KEYS[4]), smallest, oldest }
