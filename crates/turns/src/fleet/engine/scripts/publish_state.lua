-- Makes a state that of the fleet, unless there is a newer one; ends the lease.
-- KEYS 1 generation  2 state  3 lease
-- ARGV 1 generation known  2 holder  3 token  4 state  5 it is kept so long, ms
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local held = redis.call('GET', KEYS[3])
if held == ARGV[2] .. ' ' .. ARGV[3] then redis.call('DEL', KEYS[3]) end
local state = redis.call('GET', KEYS[2])
local token = state and tonumber(string.match(state, '^(%d+) ')) or 0
-- A token that is not exact is planted.
if token > tonumber(ARGV[3]) and token < 9007199254740991 then
  return {'SUPERSEDED', string.format('%.0f', now), state}
end
redis.call('SET', KEYS[2], ARGV[3] .. ' ' .. ARGV[4], 'PX', ARGV[5])
return {'DONE'}
