-- One turn of a consumer at the partitions of an ordered group: it shows that it is present, gives up, renews, and claims
-- up to its share of what nobody owns. So at any time each partition has at most one owner, and a new one a new epoch.
--
-- KEYS  1 members · 2 owners · 3 statistics of the topic · then per partition from 0: state of the group · leases
-- ARGV  1 consumer, unlike any other and any of its earlier lives · 2 now in ms, or '' for the server's clock
--       3 how long presence and ownership last, in ms · 4 number of partitions · 5 'sit', or 'stay' to keep what it has
--       without a claim to a share · then three per partition it owns: partition · epoch · 'keep' or 'give'
-- Result  {consumers present, share of this one, then {partition, epoch} of all it owns now…}: what it was given by a turn
--         whose answer it never had is given to it anew
--         error GROUPLOST: a partition of the group is not there
--
-- members   sorted set: consumer -> until when it counts as present
-- owners    hash: partition -> "<epoch> <since ms> <until ms> <consumer>"; until 0 where it was given up

local me, now, ttl, partitions = ARGV[1], clock(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local function state_of(partition) return KEYS[4 + 2 * partition] end
local function leases_of(partition) return KEYS[5 + 2 * partition] end

-- After a loss, what makes the group anew must know how many parts it has.
if partitions > 1 then redis.call('HSETNX', KEYS[3], 'partitions', partitions) end
for partition = 0, partitions - 1 do
  if redis.call('HEXISTS', state_of(partition), 'generation') == 0 then
    return redis.error_reply('GROUPLOST partition ' .. partition .. ' of the group has no state')
  end
end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. score(now))
if ARGV[5] == 'sit' then
  redis.call('ZADD', KEYS[1], score(now + ttl), me)
  redis.call('PEXPIRE', KEYS[1], 10 * ttl)
else
  redis.call('ZREM', KEYS[1], me)
end

local function write(partition, epoch, since, up_to, consumer)
  redis.call('HSET', KEYS[2], partition, table.concat({ epoch, score(since), score(up_to), consumer }, ' '))
end

local function read(partition)
  local record = redis.call('HGET', KEYS[2], partition)
  if not record then return 0, 0, 0, '' end
  local epoch, since, up_to, consumer = string.match(record, '^(%d+) (%d+) (%d+) (.*)$')
  return tonumber(epoch), tonumber(since), tonumber(up_to), consumer
end

-- Where the owners were lost with the group, epochs go on above the ones this consumer had: it must see that it owns anew.
local mine, had = {}, {}
for i = 6, #ARGV, 3 do
  local partition = tonumber(ARGV[i])
  had[partition] = tonumber(ARGV[i + 1])
  local epoch, since, up_to, consumer = read(partition)
  -- One that ran out and that nobody has claimed since is as good as ever.
  if consumer == me and epoch == tonumber(ARGV[i + 1]) and up_to > 0 then
    -- A group that was lost and made anew knows nothing of this epoch and would refuse all that is done under it.
    local forgotten = redis.call('HGET', state_of(partition), 'epoch') ~= ARGV[i + 1]
    if ARGV[i + 2] == 'give' or forgotten then
      write(partition, epoch, now, 0, '')
    else
      write(partition, epoch, since, now + ttl, me)
      mine[#mine + 1] = { partition, epoch }
    end
  end
end

local present = redis.call('ZRANGE', KEYS[1], 0, -1)
table.sort(present)
local share = 0
for rank, consumer in ipairs(present) do
  if consumer == me then
    share = math.floor(partitions / #present) + (rank <= partitions % #present and 1 or 0)
  end
end

-- The end of the last lease that the owner before was given and has not settled.
local function last_lease(partition)
  local found = redis.call('ZREVRANGEBYSCORE', leases_of(partition), '(' .. score(BAND), score(now), 'WITHSCORES', 'LIMIT', 0, 1)
  return found[2] and tonumber(found[2]) or 0
end

for partition = 0, partitions - 1 do
  if #mine >= share then break end
  local epoch, _, up_to, consumer = read(partition)
  if up_to < now or (consumer == me and not had[partition]) then
    epoch = math.max(epoch, had[partition] or 0) + 1
    write(partition, epoch, now, now + ttl, me)
    redis.call('HSET', state_of(partition), 'epoch', epoch, 'read_from', score(last_lease(partition)))
    -- Reads are counted anew under each epoch.
    redis.call('HDEL', state_of(partition), 'read', 'taken')
    mine[#mine + 1] = { partition, epoch }
  end
end
return { #present, share, unpack(mine) }
