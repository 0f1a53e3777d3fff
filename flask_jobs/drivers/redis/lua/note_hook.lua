-- uses: common
local id, hook = take(), take()
local record = redis.call('HGET', base .. 'failed', id)
if record then
  redis.call('HSET', base .. 'failed', id, hook .. string.sub(record, string.find(record, SEP, 1, true)))
end
return record and 1 or 0
