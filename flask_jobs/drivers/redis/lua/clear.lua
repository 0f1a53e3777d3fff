-- uses: common jobs memory booked
local queue, limit = take(), tonumber(take())
local ids = {}
for _, lane in ipairs({'head:', 'ready:'}) do
  if #ids < limit then
    for _, id in ipairs(call('LPOP', base .. lane .. queue, limit - #ids) or {}) do
      ids[#ids + 1] = id
    end
  end
end
if #ids < limit then
  local delayed = call('ZPOPMIN', base .. 'delayed:' .. queue, limit - #ids)
  for i = 1, #delayed, 2 do
    ids[#ids + 1] = delayed[i]
  end
end
if #ids > 0 then
  call('HDEL', JOBS, unpack(ids))
  if call('EXISTS', BOOKINGS) == 1 then
    for _, id in ipairs(ids) do
      give_back(id)
    end
  end
  remember(ids, mark_of('clear', ''))
end
if #ids < limit then
  call('DEL', base .. 'notify:' .. queue)
end
return #ids
