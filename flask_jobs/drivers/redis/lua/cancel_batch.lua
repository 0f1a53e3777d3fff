-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing following return_ties) ties
-- Whatever portions of its members have not come by now: it is whole, and finishes with those that are there.
local batch = ties().batch(take())
if not batch or batch.cancelled ~= '' or batch.finished ~= '' then
  return 0
end
-- Taken out first, so that a full server allows it.
call('HDEL', batch.key, 'cancelled')
ties().close(batch, math.huge)
batch.cancelled = NOW
ties().call_back(batch, 'default')
ties().finish()
return 1
