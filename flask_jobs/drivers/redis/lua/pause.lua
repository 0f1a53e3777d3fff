-- uses: common
local queue, till = take(), instant(take())
-- The deletion comes first, so that a full server allows the pause.
call('DEL', base .. 'notify:' .. queue)
call('HSET', base .. 'paused', queue, till and stamp(till) or '')
return 1
