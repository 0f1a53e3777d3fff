-- uses: common
local queue, member, id, progress = take(), take(), take(), take()
if not call('ZSCORE', base .. 'reserved:' .. queue, member) then
  return 0
end
call('HSET', PROGRESS, id, progress)
return 1
