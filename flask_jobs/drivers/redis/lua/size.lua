-- uses: common
local queue = take()
local delayed = base .. 'delayed:' .. queue
local due = redis.call('ZCOUNT', delayed, '-inf', NOW)
local ready = redis.call('LLEN', base .. 'head:' .. queue) + redis.call('LLEN', base .. 'ready:' .. queue) + due
return {ready, redis.call('ZCARD', delayed) - due, redis.call('ZCARD', base .. 'reserved:' .. queue)}
