-- uses: common
-- Extends the leases that live, and gives the places of those that do not.
local lost = {}
for i = 1, tonumber(take()) do
  local reserved, member = base .. 'reserved:' .. take(), take()
  local lease = call('ZSCORE', reserved, member)
  if lease and tonumber(lease) > now then
    call('ZADD', reserved, 'XX', stamp(now + retry_after), member)
  else
    lost[#lost + 1] = i - 1
  end
end
return lost
