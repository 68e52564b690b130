-- Takes requests out of a client's quota for one instance, and enters what the instance has taken and counted.
-- KEYS 1 generation  2 account (hash)
-- ARGV 1 generation known  2 instance  3 length of a span, ms  4 span of the totals; "": they come on top of those here
--      5 requests of the instance  6 its octets  7 requests given back, no longer in 5  8 requests wanted
--      9 most requests; "": any  10 octets at which none are given; "": any  11 members
--      12 requests are given so long after the generation began, us
local id, began = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)')
if id ~= ARGV[1] then return {'LOST'} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function whole(x) return string.format('%.0f', x) end
local ms, length = math.floor(now / 1000), tonumber(ARGV[3])
local span = math.floor(ms / length)
local had = {}
local f = redis.call('HGETALL', KEYS[2])
for k = 1, #f, 2 do had[f[k]] = tonumber(f[k + 1]) end
local last = had.span or span
if last == span + 1 then
  -- The clock was set back over the end of a span: the later one goes on.
  span = last
elseif last < span then
  redis.call('DEL', KEYS[2])
  had = {}
end
-- Set back further, what was used in the later span counts in this one.
local r, o = 'r:' .. ARGV[2], 'o:' .. ARGV[2]
local requests, octets = had[r] or 0, had[o] or 0
if ARGV[4] == '' then
  requests, octets = requests + ARGV[5], octets + ARGV[6]
elseif tonumber(ARGV[4]) == span or (tonumber(ARGV[4]) == last and last > span) then
  requests = math.max(requests, ARGV[5] + ARGV[7]) - ARGV[7]
  octets = math.max(octets, tonumber(ARGV[6]))
end
local all_requests, all_octets = requests, octets
for name, n in pairs(had) do
  if name ~= r and string.sub(name, 1, 2) == 'r:' then all_requests = all_requests + n end
  if name ~= o and string.sub(name, 1, 2) == 'o:' then all_octets = all_octets + n end
end
local wait = math.max(0, began + ARGV[12] - now)
local granted = tonumber(ARGV[8])
if wait > 0 or (ARGV[10] ~= '' and all_octets >= tonumber(ARGV[10])) then granted = 0 end
if granted > 0 and ARGV[9] ~= '' then
  -- At most a fiftieth of an even part: what an instance takes and does not use is out of reach for the others.
  local left = math.max(0, ARGV[9] - all_requests)
  granted = math.min(granted, left, math.max(1, math.floor(left / (50 * ARGV[11]))))
end
requests = requests + granted
redis.call('HSET', KEYS[2], 'span', whole(span), r, whole(requests), o, whole(octets))
redis.call('PEXPIRE', KEYS[2], whole(length * 2))
return {'OK', whole(span), whole((span + 1) * length - ms), whole(granted), whole(requests), whole(octets),
  whole(all_octets), whole(wait)}
