-- Names the members, with the report of each and the time since its last heartbeat, ms.
-- KEYS 1 generation  2 members (zset by time)  3 reports (hash)
-- ARGV 1 generation known
local id = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+)')
if id ~= ARGV[1] then return {'LOST'} end
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local members = {}
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf')) do
  members[#members + 1] = name
  members[#members + 1] = redis.call('HGET', KEYS[3], name) or ''
  members[#members + 1] = string.format('%.0f', math.max(ms - redis.call('ZSCORE', KEYS[2], name), 0))
end
return {members}
