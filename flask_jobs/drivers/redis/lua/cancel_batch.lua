-- uses: common jobs memory waking failing keys storing following
local batch = ties().batch(take())
if not batch or batch.cancelled ~= '' or batch.finished ~= '' then
  return 0
end
-- Taken out first, so that a full server allows it.
call('HDEL', batch.key, 'cancelled')
batch.cancelled = NOW
finish_ties()
return 1
