-- Sends a message to all instances.
-- KEYS 1 generation  2 counters (hash)  3 news (stream)
-- ARGV 1 generation known  2 message
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local number = redis.call('HINCRBY', KEYS[2], 'news', 1)
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 100000, number .. '-0', 'm', ARGV[2])
return {'OK'}
