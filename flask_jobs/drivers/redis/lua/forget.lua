-- uses: common jobs failing finding
-- Stops when it has looked at enough bytes, so that it never takes long.
local ENOUGH = 8000000
local forgotten, bytes = 0, 0
for _ = 1, tonumber(take()) do
  local fields = bytes < ENOUGH and unbury(take())
  if fields then
    forgotten, bytes = forgotten + 1, bytes + #fields[#fields]
  end
end
return forgotten
