-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing following return_ties) ties booked
-- Takes a waiting job out. A reserved one is in none of these lanes.
local id = take()
local value = call('HGET', JOBS, id)
local queue = value and select(4, string.match(value, SOUND))
if not queue or not is_sound(value, queue) then
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
ties().removed(id, queue, value)
ties().finish()
return 1
