-- uses: common jobs memory waking failing keys storing following booked
-- Takes a waiting job out. A reserved one is in none of these lanes.
local id = take()
local value = call('HGET', JOBS, id)
local queue = value and queue_of(value)
if not queue then
  return 0
end
local gone = call('ZREM', base .. 'delayed:' .. queue, id) == 1
  or call('LREM', base .. 'head:' .. queue, 1, id) == 1
  or call('LREM', base .. 'ready:' .. queue, 1, id) == 1
if not gone then
  return 0
end
call('HDEL', JOBS, id)
give_back(id)
remember({id}, mark_of('cancel', ''))
local origin, tied = ties_of(value)
if tied then
  ties().tell(id, queue, origin, tied, 'removed')
  finish_ties()
end
return 1
