-- Answers a newer state, or gives the right to fetch one.
-- KEYS 1 generation  2 state  3 lease
-- ARGV 1 generation known  2 holder  3 token known  4 lease, ms  5 highest token seen anywhere
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function whole(x) return string.format('%.0f', x) end
-- Numbers from 2^53 on are not exact: such a token is planted, and counts as none.
local function exact(x)
  local number = tonumber(x) or 0
  return number < 9007199254740991 and number or 0
end
local state = redis.call('GET', KEYS[2])
local token = exact(state and string.match(state, '^(%d+) '))
local known = exact(ARGV[3])
if token > known then
  return {'NEWER', whole(now), state}
end
local holder, its = string.match(redis.call('GET', KEYS[3]) or '', '^(%S+) (%d+)$')
if holder and holder ~= ARGV[2] then
  return {'HELD', whole(now), holder, redis.call('PTTL', KEYS[3])}
end
if holder then
  redis.call('PEXPIRE', KEYS[3], ARGV[4])
  return {'ACQUIRED', whole(now), its, whole(token)}
end
local mine = whole(math.max(token, known, exact(ARGV[5]), now) + 1)
redis.call('SET', KEYS[3], ARGV[2] .. ' ' .. mine, 'PX', ARGV[4])
return {'ACQUIRED', whole(now), mine, whole(token)}
