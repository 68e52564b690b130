-- Takes an instance out of the members.
-- KEYS 1 members (zset)  2 reports (hash)
-- ARGV 1 name
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
