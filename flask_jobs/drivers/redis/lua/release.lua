-- uses: common locking
local key, holder = take(), take()
local gone = call('HDEL', base .. 'lock:' .. key, holder)
if call('EXISTS', base .. 'lock:' .. key) == 0 then
  call('ZREM', LOCKS, key)
end
return gone
