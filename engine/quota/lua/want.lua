-- A node wants tokens: what engine/quota/allocator.py says, in the store. It is read there; here only what differs is
-- explained. Atomic; costs O(claims of the buckets), at most every quarter of a second where these are many.
-- KEYS[1]      rules: hash rule:ID -> cmsgpack {limit, burst, fallback, by period}; and version
-- KEYS[2]      memory: hash with "epoch" and "born" (seconds): when this store last knew nothing
-- KEYS[3]      told: string, cmsgpack {id, number, chain, repaid, granted, Alloc}; for a minute
-- KEYS[1+3n]   bucket of link n: hash with tokens, at, seen, limit, began, ends, used, born, shared_at, shared, spilled
-- KEYS[2+3n]   its claims: hash claimant -> cmsgpack {tenant, node, demand, weight, floor, priority, until, account,
--              account_at, share}
-- KEYS[3+3n]   its nodes: sorted set, when each asked last; for an hour
-- ARGV[1]  cmsgpack: the Want (engine/quota/protocol.py)   ARGV[2]  seconds for the clock of a test, else ''
-- ARGV[3]  cmsgpack: {lifetime, refill, live, live at least, collect, few claims, level, repay, nodes, most nodes, again,
--              told, back}, in seconds
-- Result   cmsgpack: the Alloc
local want = cmsgpack.unpack(ARGV[1])
local id, node, limiter, tenant, chain = want[1], want[2], want[3], want[4], want[5]
local asked, demand, returned, repaid = want[6], want[7], want[8], want[9]
local weight, floor, priority, spilled_then = want[10], want[11], want[12], want[13] or {}
local born_then, turn, heard = want[14] or {}, want[16] or 0, want[17] or 0
local LIFETIME, REFILL, LIVE, LIVE_LEAST, COLLECT, FEW, LEVEL, REPAY, NODES, MOST_NODES, AGAIN, TOLD, BACK =
  unpack(cmsgpack.unpack(ARGV[3]))
local LOST = 1e-9
local now
if ARGV[2] ~= '' then
  now = tonumber(ARGV[2])
else
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end

local told = redis.call('GET', KEYS[3])
local last = told and cmsgpack.unpack(told)
if last and last[1] == id then
  return last[6]
end

local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '0')
local memory = redis.call('HMGET', KEYS[2], 'epoch', 'born')
local epoch, born = tonumber(memory[1]), tonumber(memory[2])
if last and turn > 0 and turn <= last[2] then
  return cmsgpack.pack({id, 'late', 0, 0, 0, version, epoch or 0})
end
-- Who put the rules there began the memory; without it they are not believed either.
local rules = {}
for n, link in ipairs(chain) do
  local rule = redis.call('HGET', KEYS[1], 'rule:' .. link[1])
  if not rule or not epoch then
    return cmsgpack.pack({id, 'unknown rule', 0, 0, 0, version, epoch or 0})
  end
  rules[n] = cmsgpack.unpack(rule)
end

local packed_chain, reported, unheard = cmsgpack.pack(chain), repaid, 0
if last and last[3] == packed_chain and last[2] > heard then
  unheard = last[5]
  repaid = math.max(0, repaid - last[4])
end

local function fill(capacity, claims)
  -- Exact weighted max-min fairness; sets .share of each claim from its .demand and .weight.
  local order, weight_left, remaining = {}, 0, capacity
  for index, claim in ipairs(claims) do
    order[index] = claim
    weight_left = weight_left + claim.weight
  end
  table.sort(order, function(a, b)
    local x, y = a.demand / a.weight, b.demand / b.weight
    if x == y then return a.name < b.name end
    return x < y
  end)
  local given = 0
  for _, claim in ipairs(order) do
    local level = weight_left > 0 and math.max(0, remaining) / weight_left or 0
    claim.share = math.min(claim.demand, level * claim.weight)
    remaining = remaining - claim.share
    weight_left = weight_left - claim.weight
    given = given + claim.share
  end
  return given
end

local function fill_all(capacity, claims)
  -- Floors first, then what is still asked for, by priority.
  local first = {}
  for index, claim in ipairs(claims) do
    first[index] = {name = claim.name, demand = math.min(claim.demand, claim.floor), weight = claim.weight}
  end
  local remaining = capacity - fill(capacity, first)
  local bands, by_band = {}, {}
  for index, claim in ipairs(claims) do
    claim.share = first[index].share
    if not by_band[claim.priority] then
      by_band[claim.priority] = {}
      bands[#bands + 1] = claim.priority
    end
    table.insert(by_band[claim.priority], {
      name = claim.name, demand = claim.demand - claim.share, weight = claim.weight, of = claim,
    })
  end
  table.sort(bands, function(a, b) return a > b end)
  for _, band in ipairs(bands) do
    remaining = remaining - fill(remaining, by_band[band])
    for _, more in ipairs(by_band[band]) do
      more.of.share = more.of.share + more.share
    end
  end
  return capacity - remaining
end

local function number(text, otherwise) return tonumber(text or '') or otherwise end
local function written(value) return string.format('%.17g', value) end

local function offer(n)
  local link, rule = chain[n], rules[n]
  local limit, by_period, began = rule[1], rule[4], link[3]
  local room = by_period and limit or math.max(rule[2], limit * REFILL)
  local rate = by_period and 0 or limit
  local bucket_key, claims_key, nodes_key = KEYS[1 + 3 * n], KEYS[2 + 3 * n], KEYS[3 + 3 * n]
  local kept = redis.call('HMGET', bucket_key, 'tokens', 'at', 'began', 'shared_at', 'shared', 'born', 'spilled',
    'seen', 'limit', 'ends', 'used')
  local tokens, at = tonumber(kept[1] or ''), number(kept[2], now)
  local seen, limit_then = number(kept[8], now), number(kept[9], limit)
  -- What an older release made says nothing of that.
  local made = number(kept[6], 0)
  local began_at, ends_at, used = number(kept[3], 0), number(kept[10], 0), number(kept[11], 0)
  local function known_share()
    local length = ends_at - began_at
    local since = math.min(math.max(0, born * 1000 - began_at), length)
    return length > 0 and 1 - since / length or 1
  end
  if by_period and tokens and not kept[10] and began_at == began then
    -- An older release counted it down.
    ends_at = link[4]
    used = limit_then * known_share() - tokens
  end
  if not tokens then
    tokens = math.min(room, limit * math.max(0, now - born))
    at, seen, limit_then, made = now, now, limit, now
  end
  local spilled = number(kept[7], 0)
  local function pour(more)
    local filled = tokens + more
    tokens = math.min(room, filled)
    spilled = spilled + filled - tokens
  end
  local passed = math.max(0, now - seen)
  if passed > 0 or now < seen - BACK then seen = now end
  at = at + passed
  local over, allowed = false, 0
  if by_period then
    if began <= now * 1000 and now * 1000 < link[4] then
      if began >= ends_at then used = 0 end
      began_at, ends_at = began, link[4]
    end
    over = now * 1000 >= ends_at
    allowed = over and used or limit * known_share()
    tokens = allowed - used
  else
    pour(math.min(limit, limit_then) * passed)
  end
  local is_of_this = born_then[n] == made
  pour(unheard + (is_of_this and returned or 0))
  local paid = math.min(repaid, math.max(0, spilled - (is_of_this and spilled_then[n] or spilled)))
  spilled = spilled - paid
  tokens = math.max(tokens - (repaid - paid), math.min(tokens, -REPAY * limit))

  local name = limiter .. '@' .. node
  local raw = redis.call('HGET', claims_key, name)
  local known = raw and cmsgpack.unpack(raw)
  if known and known[7] < at then known = nil end
  local mine = known or {tenant, node, 0, 1, 0, 0, 0, 0, at, 0}
  local shared_at = number(kept[4], -1e18)
  local shared = number(kept[5], 0)
  mine[1], mine[2], mine[3], mine[4], mine[5], mine[6], mine[7] = tenant, node, demand, weight, floor, priority, at + LIVE
  local count = redis.call('HLEN', claims_key) + (raw and 0 or 1)
  if count <= FEW or at - shared_at >= LEVEL then
    shared_at = at
    local tenants, groups, gone = {}, {}, {}
    local all = redis.call('HGETALL', claims_key)
    local function add(key, claimant)
      local group = tenants[claimant[1]]
      if not group then
        group = {name = claimant[1], demand = 0, weight = 0, floor = 0, priority = -1e9, claims = {}}
        tenants[claimant[1]] = group
        groups[#groups + 1] = group
      end
      group.demand = group.demand + claimant[3]
      group.weight = math.max(group.weight, claimant[4])
      group.floor = math.max(group.floor, claimant[5])
      group.priority = math.max(group.priority, claimant[6])
      table.insert(group.claims, {name = key, demand = claimant[3], weight = 1, of = claimant})
    end
    for index = 1, #all, 2 do
      if all[index] ~= name then
        local claimant = cmsgpack.unpack(all[index + 1])
        if claimant[7] < at then
          gone[#gone + 1] = all[index]
        else
          add(all[index], claimant)
        end
      end
    end
    add(name, mine)
    shared = fill_all(rate, groups)
    for _, group in ipairs(groups) do
      fill(group.share, group.claims)
      for _, claim in ipairs(group.claims) do
        if claim.of[10] ~= claim.share then
          claim.of[10] = claim.share
          if claim.name ~= name then redis.call('HSET', claims_key, claim.name, cmsgpack.pack(claim.of)) end
        end
      end
    end
    for _, key in ipairs(gone) do redis.call('HDEL', claims_key, key) end
  end

  local share = mine[10]
  mine[8] = math.min(mine[8] + share * math.max(0, at - mine[9]), share * COLLECT + 1)
  mine[9] = at
  local spills = rate > 0 and math.max(0, tokens + REFILL * rate - room) or 0
  local free = tokens - math.max(0, REFILL * math.max(0, shared - share) - spills)
  local own = mine[8] > LOST and math.ceil(mine[8] - LOST) or 0
  local most = over and 0 or math.max(0, math.min(math.floor(tokens + LOST), math.max(own, math.floor(free + LOST))))
  local again = AGAIN
  if rate > 0 then
    again = (1 - free) / rate
    if share > 0 then again = math.min(again, math.max(-mine[8] / share, (1 - tokens) / rate)) end
    again = math.max(0, again)
  end
  redis.call('ZADD', nodes_key, written(at), node)
  redis.call('ZREMRANGEBYSCORE', nodes_key, '-inf', '(' .. written(at - NODES))
  local nodes = redis.call('ZCARD', nodes_key)
  if nodes > MOST_NODES then
    redis.call('ZPOPMIN', nodes_key, nodes - MOST_NODES)
    nodes = MOST_NODES
  end
  redis.call('PEXPIRE', nodes_key, string.format('%d', NODES * 1000))
  return {
    most = most, again = again, spilled = spilled, share = share, rule = rule, name = link[1], born = made,
    alone = rule[3] * limit / nodes,
    keep = function(granted)
      mine[8] = math.max(-1, mine[8] - granted)
      mine[7] = at + (demand > 0 and math.min(LIVE, math.max(LIVE_LEAST, 3 * math.max(asked, granted) / demand)) or LIVE)
      redis.call('HSET', claims_key, name, cmsgpack.pack(mine))
      redis.call('HSET', bucket_key, 'tokens', written(tokens - granted), 'at', written(at),
        'began', string.format('%d', began_at), 'ends', string.format('%d', ends_at),
        'used', written(by_period and allowed - tokens + granted or used), 'shared_at', written(shared_at), 'shared', written(shared),
        'born', written(made), 'spilled', written(spilled), 'seen', written(seen),
        'limit', written(limit))
      -- A bucket that has gone is one that is full: it is forgotten no sooner than it would be.
      local full_ms = 0
      if by_period then
        full_ms = 3600000
      elseif limit > 0 then
        full_ms = (room - tokens + granted) / limit * 1000 + 60000
      else
        full_ms = 7 * 86400000
      end
      -- Nor while a period goes on that something was used of, though its rule has none just now.
      full_ms = math.max(full_ms, ends_at > 0 and ends_at - now * 1000 + 3600000 or 0)
      full_ms = string.format('%d', math.min(full_ms, 400 * 86400000))
      redis.call('PEXPIRE', bucket_key, full_ms)
      redis.call('PEXPIRE', claims_key, full_ms)
    end,
  }
end

local offers, granted, narrowest = {}, asked, nil
for n in ipairs(chain) do
  offers[n] = offer(n)
  granted = math.min(granted, offers[n].most)
  if not narrowest or offers[n].most < narrowest.most
    or (offers[n].most == narrowest.most and offers[n].again > narrowest.again) then
    narrowest = offers[n]
  end
end
local again, share, fallback = 0, math.huge, math.huge
local longest, spilled, made, alone = REFILL / 10, {}, {}, {}
for n, each in ipairs(offers) do
  each.keep(granted)
  spilled[n], made[n], alone[n] = each.spilled, each.born, each.alone
  share, fallback = math.min(share, each.share), math.min(fallback, each.alone)
  longest = math.max(longest, each.again)
end
if granted < asked then
  again = granted > 0 and REFILL or math.min(AGAIN, longest)
end
local alloc = cmsgpack.pack({
  id, 'granted', granted, LIFETIME, again, version, epoch, narrowest.name, narrowest.rule[1], narrowest.rule[2], share,
  fallback, spilled, made, alone, narrowest.most - granted,
})
redis.call('SET', KEYS[3], cmsgpack.pack({id, turn, packed_chain, reported, granted, alloc}), 'PX',
  string.format('%d', TOLD * 1000))
return alloc
