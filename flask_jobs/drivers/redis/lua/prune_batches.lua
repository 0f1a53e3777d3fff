-- uses: common
local age, limit = tonumber(take()), take()
local over = base .. 'batches:over'
local old = call('ZRANGEBYSCORE', over, '-inf', stamp(now - age), 'LIMIT', 0, limit)
for _, id in ipairs(old) do
  call('DEL', base .. 'batch:' .. id)
end
if #old > 0 then
  call('ZREM', over, unpack(old))
  call('ZREM', base .. 'batches', unpack(old))
end
return #old
