-- uses: common locking
local key, holder, seconds = take(), take(), tonumber(take())
local hold = holders(key)[holder]
if not hold then
  return 0
end
if hold.has_end then
  call('HSET', base .. 'lock:' .. key, holder, table.concat({hold.job, '', '', stamp(now + seconds)}, SEP))
  look_again(key, seconds)
  local _, _, _, last = holders(key)
  keep_until(key, last)
end
return 1
