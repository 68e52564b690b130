-- Reserves turns at origins: answers for each question their moments, or when there may be one.
-- KEYS 1 generation  2 counters (hash)  then for each question: turns (hash)  slots (zset by expiry)
-- ARGV 1 generation known  2 horizon of all turns but the first, us  3 a slot lives, us  then for each question:
--      1 number of ids at its end  2 page | robots | now | aside  3 group  4 turns wanted  5 horizon of the first turn, us
--      6 interval, us; 0: no rate  7 burst  8 interval of the group, us; 0: none  9 rest that the asker knows of, us
--      10 gap that it knows of, us  11 concurrency; 0: any  12 the past matters for, us  13... ids of slots
-- A field that is missing, or from another generation, counts as used when the generation began. The asker's gap counts
-- if no gap of the origin was told of in this generation.
local id, start = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)')
if id ~= ARGV[1] then return {'LOST'} end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function whole(x) return string.format('%.0f', x) end
local near, life = tonumber(ARGV[2]), tonumber(ARGV[3])

-- Answers the question whose arguments follow ARGV[a].
local function reserve(turns, slots, a)
  local ids, kind, group = tonumber(ARGV[a + 1]), ARGV[a + 2], 'g:' .. ARGV[a + 3]
  local wanted, horizon = tonumber(ARGV[a + 4]), tonumber(ARGV[a + 5])
  local I, burst, G = tonumber(ARGV[a + 6]), tonumber(ARGV[a + 7]), tonumber(ARGV[a + 8])
  local most, keep = tonumber(ARGV[a + 11]), tonumber(ARGV[a + 12])
  local began = tonumber(start)

  local v = redis.call('HMGET', turns, 'generation', 'paid', 'interval', 'burst', 'rated', 'last', 'gap', 'since', 'rest',
    'robots', 'seen', group, 'earlier')
  local exists = v[1] == id
  if not exists then v = {} end
  local seen = tonumber(v[11] or now)
  if seen > now then
    -- The engine's clock was set back: everything counts as used now, a rest keeps its length.
    v = {id, nil, nil, nil, nil, nil, v[7], v[8] and now, v[9] and whole(v[9] - (seen - now))}
    began = math.max(now, began)
    redis.call('DEL', turns)
  elseif v[1] and not exists then
    redis.call('DEL', turns)
  end
  local rated, last = tonumber(v[5] or began), tonumber(v[6] or began)
  local paid = tonumber(v[2] or began + I * burst)
  local gap, since = tonumber(v[7] or 0), tonumber(v[8] or 0)
  local rest, robots = tonumber(v[9] or 0), tonumber(v[10] or began)
  -- The robots.txt before that one, which may be reserved.
  local earlier = tonumber(v[13] or began)
  local before = v[12] and tonumber(string.match(v[12], '^%d+'))
  local was, wide = tonumber(v[3] or 0), tonumber(v[4] or 0)
  if I > 0 and was > 0 and (was ~= I or wide ~= burst) then
    -- Another rate: the same number of turns is owed as of the last one, but at most a burst.
    local owed = math.ceil(math.max(0, paid - rated) / was)
    paid = rated + math.min(math.max(owed, 1), burst) * I
  end
  if gap > 0 and now - since >= math.max(gap, 600000000) then gap = 0 end
  if since < began and tonumber(ARGV[a + 10]) > gap then gap, since = tonumber(ARGV[a + 10]), now end
  rest = math.max(rest, now + ARGV[a + 9])

  -- A robots.txt keeps the interval of every group.
  local all = 0
  if kind == 'robots' or kind == 'aside' then
    local f = redis.call('HGETALL', turns)
    for k = 1, #f, 2 do
      if string.sub(f[k], 1, 2) == 'g:' then
        local at, interval = string.match(f[k + 1], '^(%d+) (%d+)$')
        all = math.max(all, at + interval)
      end
    end
  end

  -- By this time each instance has renewed the slots that the engine may have lost.
  local renewed = 0
  if most > 0 then
    local resumed = tonumber(redis.call('HGET', KEYS[2], 'resumed') or 0)
    -- A later one is planted, or from before the clock was set back.
    if resumed > now then resumed = 0 end
    renewed = math.max(began, resumed) + math.floor(life / 3)
  end

  -- Returns the moment of the next turn, and whether a group alone decides it.
  local function due()
    local at = math.max(now, began, rest)
    if I > 0 then
      at = math.max(at, paid - I * (burst - 1))
      if last > rated then at = math.max(at, last + I) end
    end
    if gap > 0 then at = math.max(at, last + gap) end
    at = math.max(at, renewed)
    local own = all
    if G > 0 then
      own = math.max(own, earlier + G, (before or 0) + G)
      -- The time before a robots.txt that is reserved is free for pages whose interval ends by then.
      if math.max(at, own) + G > robots then own = math.max(own, robots + G) end
    end
    return math.max(at, own), own > at
  end

  local free = 1e9
  if most > 0 then
    redis.call('ZREMRANGEBYSCORE', slots, '-inf', whole(now))
    if kind == 'page' then free = math.max(0, most - redis.call('ZCARD', slots)) end
  end

  local out = {}
  local function take(at)
    if I > 0 then
      paid = math.max(paid, at) + I
      was, wide, rated = I, burst, math.max(rated, at)
    end
    if G > 0 then before = at end
    if kind == 'robots' or kind == 'now' then
      earlier, robots = math.max(earlier, math.min(at, robots)), math.max(at, robots)
    end
    last = math.max(last, at)
    out[#out + 1] = whole(at)
    local slot = #out <= ids and ARGV[a + 12 + #out]
    if most > 0 and slot then redis.call('ZADD', slots, whole(at + life), slot) end
  end
  if kind == 'now' then
    take(now)
  elseif kind == 'aside' then
    if due() <= now then take(now) end
    -- Only once within the longest interval: a site that redirects delays others by no more.
    if robots + keep <= now then earlier, robots = robots, now end
  else
    for k = 1, math.min(wanted, free) do
      local at, by_group = due()
      local ahead = horizon
      -- A page's turn far ahead that only its group waits for would hold up the turns of others. A robots.txt takes it
      -- nevertheless: the pages of all groups together would keep it waiting for ever.
      if k > 1 or (by_group and kind == 'page' and (I > 0 or gap > 0)) then ahead = math.min(near, horizon) end
      if at - now > ahead then break end
      take(at)
    end
  end

  local next_at, by_group = due()
  local is_calm = gap == 0 and rest <= now
  local is_full = most > 0 and kind == 'page' and #out >= free and #out < wanted
  -- A robots.txt delays nothing where no interval is kept.
  local is_bound = I > 0 or G > 0 or most > 0 or (kind ~= 'page' and keep > 0)
  if exists or is_bound or not is_calm then
    redis.call('HSET', turns, 'generation', id, 'last', whole(last), 'gap', whole(gap), 'since', whole(since),
      'rest', whole(rest), 'robots', whole(robots), 'earlier', whole(earlier), 'seen', whole(now))
    if I > 0 and #out > 0 then
      redis.call('HSET', turns, 'paid', whole(paid), 'interval', whole(was), 'burst', whole(wide),
        'rated', whole(rated))
    end
    if G > 0 and before then redis.call('HSET', turns, group, whole(before) .. ' ' .. whole(G)) end
    local until_then = math.max(paid, last + gap, rest, robots, now) - now
    redis.call('PEXPIRE', turns, whole((until_then + keep) / 1000 + 600000))
  end
  if most > 0 then redis.call('PEXPIRE', slots, whole((math.max(last, now) - now + life) / 1000 * 2)) end
  return table.concat({whole(next_at), is_full and 1 or 0, by_group and 1 or 0, whole(gap),
    whole(math.max(rest - now, 0)), unpack(out)}, ' ')
end

-- A question that fails, for what lies at its origin, costs the others nothing. If all fail, the engine refuses.
local replies, failed, why, a = {'OK', whole(now)}, 0, nil, 3
for k = 3, #KEYS, 2 do
  local ended, reply = pcall(reserve, KEYS[k], KEYS[k + 1], a)
  if not ended then
    why = type(reply) == 'table' and reply.err or 'ERR ' .. tostring(reply)
    failed, reply = failed + 1, '-' .. why
  end
  replies[#replies + 1] = reply
  a = a + 12 + ARGV[a + 1]
end
if failed > 0 and failed == #replies - 2 then return {err = why} end
return replies
