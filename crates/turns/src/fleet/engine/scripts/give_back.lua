-- Gives back a turn that was not used, unless another one was reserved after it.
-- KEYS 1 generation  2 turns (hash)
-- ARGV 1 generation known  2 the turn's moment  3 group  4 its interval, us; 0: none
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local function whole(x) return string.format('%.0f', x) end
local group = 'g:' .. ARGV[3]
local v = redis.call('HMGET', KEYS[2], 'generation', 'last', 'paid', 'interval', 'rated', group)
if v[1] ~= id or v[2] ~= ARGV[2] then return {'OK'} end
-- A microsecond earlier, so that a second return of the same turn finds another one.
local before = whole(ARGV[2] - 1)
redis.call('HSET', KEYS[2], 'last', before)
if v[3] and v[5] == ARGV[2] then
  redis.call('HSET', KEYS[2], 'paid', whole(v[3] - v[4]), 'rated', before)
end
local interval = tonumber(ARGV[4])
if interval > 0 and v[6] and string.match(v[6], '^%d+') == ARGV[2] then
  redis.call('HSET', KEYS[2], group, whole(ARGV[2] - interval) .. ' ' .. whole(interval))
end
return {'OK'}
