-- uses: common places waking open_keys(keys) storing
-- Stores a chain with its first link. The other links wait in it by their numbers.
local id, catch, total = take(), take(), tonumber(take())
local key = base .. 'chain:' .. id
if call('EXISTS', key) == 1 then
  return 0
end
local first = take()
local answer = put(string.match(first, PLANNED))
if answer ~= 1 then
  return answer
end
deliver()
call('HSET', key, 'total', total, 'link', '1', 'job', (string.match(first, PLANNED)), 'created', NOW)
if catch ~= '' then
  call('HSET', key, 'catch', catch)
end
for link = 2, total do
  call('HSET', key, link, take())
end
return answer
