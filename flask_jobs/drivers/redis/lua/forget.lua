-- uses: common jobs places memory waking failing finding open_ties(open_keys(keys) storing following return_ties) ties
-- Stops when it has looked at enough bytes, so that it never takes long.
local ENOUGH = 8000000
local forgotten, bytes = 0, 0
for _ = 1, tonumber(take()) do
  local id = take()
  local fields = bytes < ENOUGH and buried(id)
  if fields then
    unbury(id, fields)
    if fields[TIES] ~= '' then
      ties().tell(id, fields[QUEUE], fields[ORIGIN], fields[TIES], 'forgotten')
    end
    forgotten, bytes = forgotten + 1, bytes + #fields[#fields]
  end
end
ties().finish()
return forgotten
