-- Names the commands that this user may not send for all of some names, and those that the engine does not know. Sends none.
-- ARGV 1 so many names follow  2... names  then commands, each before the number of its arguments
local names = tonumber(ARGV[1])
local refused, unknown = {}, {}
for k = names + 2, #ARGV, 2 do
  for n = 2, names + 1 do
    -- Redis from 8.2.9, and Debian's 8.0.2-3+deb13u3, ask for as many arguments as the command takes.
    local words, count = {ARGV[n], '0', '0', '0'}, tonumber(ARGV[k + 1])
    local known, may = pcall(redis.acl_check_cmd, ARGV[k], unpack(words, 1, count))
    if not known then
      unknown[#unknown + 1] = ARGV[k]
      break
    elseif not may then
      refused[#refused + 1] = ARGV[k]
      break
    end
  end
end
return {refused, unknown}
