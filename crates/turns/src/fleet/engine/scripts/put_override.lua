-- Puts an override, or its removal, into the set that all instances share. The same content again is no change.
-- KEYS 1 generation  2 counters (hash)  3 overrides (hash), added or removed
-- ARGV 1 generation known  2 id  3 content
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local change = tonumber(redis.call('HGET', KEYS[2], 'overrides') or 0)
if redis.call('HGET', KEYS[3], ARGV[2]) ~= ARGV[3] then
  -- A counter that begins again goes on above the lost one.
  local t = redis.call('TIME')
  local now = t[1] * 1000000 + t[2]
  change = math.max(change + 1, now)
  -- Not exact: it is planted.
  if change >= 9007199254740992 then change = now end
  redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
  redis.call('HSET', KEYS[2], 'overrides', string.format('%.0f', change))
end
return {string.format('%.0f', change)}
