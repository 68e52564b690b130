-- Tells that an instance lives; answers what has changed. Begins a generation where there is none, where the engine has
-- been started anew since the present one began, and where its clock was set back to a time before that.
-- KEYS 1 generation  2 members (zset by time)  3 reports (hash)  4 counters (hash)  5 news (stream)
-- ARGV 1 name  2 report  3 a member is forgotten after, ms  4 id of a new generation  5 the engine's run_id
--      6 grants begin so long after the new generation, us  7 last news known; "": none of those from before
--      8 the process, which the report names  9 a name stays with a silent process for, ms  10 a slot lives, ms
--      11 names the key, which the report names, too
-- Answers DUPLICATE, and enters nothing, while another process has the name; OTHER_KEY and the name of a member with
-- another key, if this one comes anew, or with another key than before.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)
local function whole(x) return string.format('%.0f', x) end
local id, began, run = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+) (%S+)$')
if not id or run ~= ARGV[5] or tonumber(began) > now + 60000000 then
  id = ARGV[4]
  redis.call('SET', KEYS[1], id .. ' ' .. whole(now + ARGV[6]) .. ' ' .. ARGV[5])
end
-- No slot was renewed while no member was heard of: one that has run out may be in use.
local is_heard = #redis.call('ZRANGEBYSCORE', KEYS[2], whole(ms - ARGV[10]), '+inf', 'LIMIT', 0, 1) > 0
if not is_heard and redis.call('ZCARD', KEYS[2]) > 0 then redis.call('HSET', KEYS[4], 'resumed', whole(now)) end
local function forget(from, to)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], from, to)) do
    redis.call('ZREM', KEYS[2], name)
    redis.call('HDEL', KEYS[3], name)
  end
end
forget('-inf', '(' .. whole(ms - ARGV[3]))
-- Heard of by a clock that was set back since.
forget('(' .. whole(ms + ARGV[3]), '+inf')
-- A report of an older program names no process.
local report = redis.call('HGET', KEYS[3], ARGV[1]) or ''
local process = string.match(report, '"process":"(%w+)"')
local silent = ms - (redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
if process and process ~= ARGV[8] and silent >= 0 and silent < tonumber(ARGV[9]) then return {'DUPLICATE'} end
local function key_of(report) return string.match(report, '"key":"(%w+)"') end
if key_of(report) ~= ARGV[11] then
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf')) do
    local other = name ~= ARGV[1] and key_of(redis.call('HGET', KEYS[3], name) or '')
    if other and other ~= ARGV[11] then return {'OTHER_KEY', name} end
  end
end
redis.call('ZADD', KEYS[2], whole(ms), ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
local counters = redis.call('HMGET', KEYS[4], 'overrides', 'news')
local last = tonumber(counters[2] or 0)
local items, first = {}, 0
if last > tonumber(ARGV[7] ~= '' and ARGV[7] or last) then
  local found = redis.call('XRANGE', KEYS[5], whole(ARGV[7] + 1) .. '-0', '+', 'COUNT', 256)
  for k, entry in ipairs(found) do
    local number = tonumber(string.match(entry[1], '^%d+'))
    if k == 1 then first = number end
    items[k] = entry[2][2]
    last = number
  end
end
return {id, counters[1] or '0', whole(last), whole(first), items, redis.call('ZCARD', KEYS[2])}
