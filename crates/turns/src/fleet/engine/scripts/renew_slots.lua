-- Keeps the slots of requests that are under way, also those that the engine has lost.
-- KEYS 1 slots (zset by expiry)
-- ARGV 1 a slot lives, us  2... ids
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for k = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'GT', string.format('%.0f', now + ARGV[1]), ARGV[k])
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ARGV[1] / 500))
return {'OK'}
