-- A wrk script: requests to a forward proxy, in absolute form, the origins in turn.
-- Arguments after `--`: origin port, number of origins, path. Ends with one line of numbers:
-- requests, answers that are not 2xx or 3xx, failures, octets, seconds, p50 in µs.

local requests, turn = {}, 0

function init(args)
  local port, origins, path = args[1], tonumber(args[2]), args[3]
  for n = 1, origins do
    local host = "127.0.9." .. n .. ":" .. port
    requests[n] = "GET http://" .. host .. path .. " HTTP/1.1\r\nHost: " .. host ..
      "\r\nUser-Agent: BenchBot/1.0 (+http://bench.test/bot)\r\nAccept: */*\r\n\r\n"
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format("numbers %d %d %d %.0f %.6f %d\n", summary.requests, e.status,
    e.connect + e.read + e.write + e.timeout, summary.bytes, summary.duration / 1e6, latency:percentile(50)))
end
