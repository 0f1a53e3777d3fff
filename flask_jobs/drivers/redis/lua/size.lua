-- uses: common
local queue = take()
local delayed = base .. 'delayed:' .. queue
local due = call('ZCOUNT', delayed, '-inf', NOW)
local ready = call('LLEN', base .. 'head:' .. queue) + call('LLEN', base .. 'ready:' .. queue) + due
return {ready, call('ZCARD', delayed) - due, call('ZCARD', base .. 'reserved:' .. queue)}
