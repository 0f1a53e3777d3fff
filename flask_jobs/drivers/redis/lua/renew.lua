-- uses: common
-- Extends the leases that live, and gives the places of those that do not.
local lost = {}
for i = 1, tonumber(take()) do
  local reserved, member = base .. 'reserved:' .. take(), take()
  local lease = call('ZSCORE', reserved, member)
  if lease and tonumber(lease) > now then
    -- Taken out first: that frees memory, so that a full server allows it, and then what follows.
    call('ZREM', reserved, member)
    -- A microsecond apart, so that the leases go on telling an order.
    call('ZADD', reserved, stamp(now + retry_after + (i - 1) / 1000000), member)
  else
    lost[#lost + 1] = i - 1
  end
end
return lost
