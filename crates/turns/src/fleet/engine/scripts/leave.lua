-- Takes an instance out of the members, unless another process has its name.
-- KEYS 1 members (zset)  2 reports (hash)
-- ARGV 1 name  2 the process
local process = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '"process":"(%w+)"')
if process and process ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
