-- Ends a lease without a state.
-- KEYS 1 generation  2 lease
-- ARGV 1 generation known  2 holder
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local holder = string.match(redis.call('GET', KEYS[2]) or '', '^(%S+)')
if holder == ARGV[2] then redis.call('DEL', KEYS[2]) end
return {'OK'}
