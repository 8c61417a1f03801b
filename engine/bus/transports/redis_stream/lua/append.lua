-- Appends a batch of normal messages without keys to the one stream of an undivided topic, by the server's own clock.
-- What publish.lua does for every message, without what these need nothing of: it is half of the work of most publishes.
--
-- KEYS  1 the stream · 2 statistics of the topic
-- ARGV  bodies
-- Result  one item per message: its id, or {'failed', the server's words, ''}; {'closed', '', ''} where the topic takes
--         nothing

local stream, run, outcomes, stored = KEYS[1], redis.pcall, {}, #ARGV

if redis.call('HEXISTS', KEYS[2], 'closed') == 1 then
  for i = 1, #ARGV do outcomes[i] = { 'closed', '', '' } end
  return outcomes
end

for i = 1, #ARGV do
  local id = run('XADD', stream, '*', 'event', ARGV[i])
  if type(id) == 'table' then
    id = { 'failed', id.err, '' }
    stored = stored - 1
  end
  outcomes[i] = id
end

if stored > 0 and redis.call('HINCRBY', KEYS[2], 'published', stored) == stored then
  -- As incarnation() of common.lua makes it.
  local time = redis.call('TIME')
  redis.call('HSETNX', KEYS[2], 'incarnation', string.format('%x%05x', time[1], time[2]))
end
return outcomes
