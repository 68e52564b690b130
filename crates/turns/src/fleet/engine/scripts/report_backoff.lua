-- Enters how an origin has taken a request; answers the gap and the rest that follow, in microseconds.
-- KEYS 1 generation  2 turns (hash)
-- ARGV 1 generation known  2 fine | refused | troubled  3 it was sent so long ago, us  4 first gap, us  5 widest gap, us
--      6 Retry-After, us  7 longest rest, us  8 the past matters for, us
local id, began = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)')
if id ~= ARGV[1] then return {'LOST'} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function whole(x) return string.format('%.0f', x) end
local v = redis.call('HMGET', KEYS[2], 'generation', 'gap', 'since', 'rest', 'last', 'paid', 'seen')
if v[1] and v[1] ~= id then
  redis.call('DEL', KEYS[2])
  v = {}
end
local gap, since, rest = tonumber(v[2] or 0), tonumber(v[3] or 0), tonumber(v[4] or 0)
local sent = now - ARGV[3]
local last = math.max(tonumber(v[5] or began), sent)
if gap > 0 and now - since >= math.max(gap, 600000000) then gap = 0 end
-- An answer to a request that was sent before the present gap says nothing new.
local is_new = sent >= since
if ARGV[2] == 'fine' then
  if gap == 0 and not v[1] then return {'OK', '0', '0'} end
  if gap > 0 and is_new then
    gap, since = math.floor(gap / 2), now
    if gap < 200000 then gap = 0 end
  end
else
  if is_new then
    local wider = math.min(math.max(gap * 2, tonumber(ARGV[4])), tonumber(ARGV[5]))
    gap, since = math.max(gap, wider), now
  end
  if ARGV[2] == 'refused' then
    rest = math.max(rest, now + math.min(math.max(tonumber(ARGV[6]), gap), tonumber(ARGV[7])))
  end
end
-- A clock that was set back is noticed by the next question for a turn.
local seen = math.max(tonumber(v[7] or now), now)
redis.call('HSET', KEYS[2], 'generation', id, 'gap', whole(gap), 'since', whole(since), 'rest', whole(rest),
  'last', whole(last), 'seen', whole(seen))
local until_then = math.max(rest, last + gap, tonumber(v[6] or 0), now) - now
redis.call('PEXPIRE', KEYS[2], whole((until_then + ARGV[8]) / 1000 + 900000))
return {'OK', whole(gap), whole(math.max(rest - now, 0))}
