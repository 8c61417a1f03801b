-- Where one stream ends, at one moment.
--
-- KEYS  1 stream  2 statistics of the topic  3 how many were taken of each of its streams
-- ARGV  1 the name of the stream's log
-- Result  {the life of the topic or '', the last id the stream gave, how many entries it was ever given, how many it
--         holds, its first id or ''}, or {} where there is no such stream

if redis.call('EXISTS', KEYS[1]) == 0 then return {} end

local info = redis.call('XINFO', 'STREAM', KEYS[1])
local held, first = field(info, 'length'), field(info, 'first-entry')
-- Redis before 7 does not count what a stream was given, and one that was brought from there to a later server begins
-- with what it held: it was given at least that and what was taken of it.
local given = held + (tonumber(redis.call('HGET', KEYS[3], ARGV[1])) or 0)
local added = math.max(field(info, 'entries-added') or 0, given)
local life = redis.call('HGET', KEYS[2], 'incarnation') or ''
return { life, field(info, 'last-generated-id'), added, held, first and first[1] or '' }
