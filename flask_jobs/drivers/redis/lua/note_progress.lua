-- uses: common
local queue, member, id, progress = take(), take(), take(), take()
if not call('ZSCORE', base .. 'reserved:' .. queue, member) then
  return 0
end
-- Taken out first, so that a full server allows it: what a job says of itself must not end it.
call('HDEL', PROGRESS, id)
call('HSET', PROGRESS, id, progress)
return 1
