-- Frees the slot of a request that has ended.
-- KEYS 1 slots (zset by expiry)
-- ARGV 1 id
redis.call('ZREM', KEYS[1], ARGV[1])
return {'OK'}
