-- Names the commands that this user may not send for all of some names. Sends none of them.
-- ARGV 1 so many names follow  2... names  then commands
local names = tonumber(ARGV[1])
local refused = {}
for k = names + 2, #ARGV do
  for n = 2, names + 1 do
    if not redis.acl_check_cmd(ARGV[k], ARGV[n]) then
      refused[#refused + 1] = ARGV[k]
      break
    end
  end
end
return refused
