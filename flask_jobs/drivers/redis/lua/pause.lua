-- uses: common
local queue, till = take(), instant(take())
call('HSET', base .. 'paused', queue, till and stamp(till) or '')
call('DEL', base .. 'notify:' .. queue)
return 1
