-- Goes before each script: its time is a key that the test writes, and keys expire by it.
local engine, expiry = redis, 'crawlgate:expiry'
local now = tonumber(redis.call('GET', 'crawlgate:clock'))
local ms = math.floor(now / 1000)
local function whole(x) return string.format('%.0f', x) end
local function expires(key) return tonumber(engine.call('HGET', expiry, key) or math.huge) end
local function expire(key, after)
  if engine.call('EXISTS', key) == 0 then return 0 end
  engine.call('HSET', expiry, key, whole(ms + after))
  return 1
end
local redis = {}
function redis.call(command, key, ...)
  if command == 'TIME' then return {whole(math.floor(now / 1000000)), whole(now % 1000000)} end
  if ms > expires(key) then
    engine.call('DEL', key)
    engine.call('HDEL', expiry, key)
  end
  if command == 'PEXPIRE' then return expire(key, ...) end
  if command == 'PTTL' then return expires(key) - ms end
  if command == 'DEL' or command == 'SET' then engine.call('HDEL', expiry, key) end
  if command == 'SET' then
    local value, px, after = ...
    local reply = engine.call('SET', key, value)
    if px then expire(key, after) end
    return reply
  end
  return engine.call(command, key, ...)
end
