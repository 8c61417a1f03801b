-- Where one stream ends, at one moment.
--
-- KEYS  1 stream  2 how many were taken of each stream of the topic
-- ARGV  1 the name of the stream's log
-- Result  {the last id it gave, how many entries it was ever given, how many it holds, its first id or ''}, or {}
--         where there is no such stream

if redis.call('EXISTS', KEYS[1]) == 0 then return {} end

local info = redis.call('XINFO', 'STREAM', KEYS[1])
local held, first = field(info, 'length'), field(info, 'first-entry')
local added = field(info, 'entries-added') or held + (tonumber(redis.call('HGET', KEYS[2], ARGV[1])) or 0)
return { field(info, 'last-generated-id'), added, held, first and first[1] or '' }
