-- uses: common
local queue, till = take(), instant(take())
redis.call('HSET', base .. 'paused', queue, till and stamp(till) or '')
redis.call('DEL', base .. 'notify:' .. queue)
return 1
