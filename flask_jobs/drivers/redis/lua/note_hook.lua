-- uses: common
local id, hook = take(), take()
local record = call('HGET', base .. 'failed', id)
if record then
  call('HSET', base .. 'failed', id, hook .. sub(record, (string.find(record, SEP, 1, true))))
end
return record and 1 or 0
