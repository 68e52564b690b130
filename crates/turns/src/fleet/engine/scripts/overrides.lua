-- Names all overrides that the instances share.
-- KEYS 1 generation  2 counters (hash)  3 added (hash)  4 removed (hash)
-- ARGV 1 generation known
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local change = redis.call('HGET', KEYS[2], 'overrides') or '0'
return {change, redis.call('HGETALL', KEYS[3]), redis.call('HGETALL', KEYS[4])}
