-- uses: common
-- Queue by queue the end of its pause; those that have ended are forgotten.
local found, pauses = {}, call('HGETALL', base .. 'paused')
for i = 1, #pauses, 2 do
  local till = tonumber(pauses[i + 1])
  if till and till <= now then
    call('HDEL', base .. 'paused', pauses[i])
  else
    found[#found + 1] = pauses[i]
    found[#found + 1] = pauses[i + 1]
  end
end
return found
