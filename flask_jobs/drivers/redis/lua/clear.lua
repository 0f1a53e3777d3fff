-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing following return_ties) ties booked
-- Stops when it has looked at enough bytes, so that it never takes long.
local ENOUGH, AT_ONCE = 8000000, 100
local queue, limit = take(), tonumber(take())
local cleared, bytes = 0, 0

-- The next waiting ids, off their lane.
local function next_ids(amount)
  for _, lane in ipairs({'head:', 'ready:'}) do
    local ids = call('LPOP', base .. lane .. queue, amount)
    if ids and #ids > 0 then
      return ids
    end
  end
  local ids, delayed = {}, call('ZPOPMIN', base .. 'delayed:' .. queue, amount)
  for i = 1, #delayed, 2 do
    ids[#ids + 1] = delayed[i]
  end
  return ids
end

local function take_out(ids)
  local values = call('HMGET', JOBS, unpack(ids))
  call('HDEL', JOBS, unpack(ids))
  if call('EXISTS', BOOKINGS) == 1 then
    for _, id in ipairs(ids) do
      give_back(id)
    end
  end
  remember(ids, mark_of('clear', ''))
  for i, id in ipairs(ids) do
    ties().removed(id, queue, values[i])
    bytes = bytes + #(values[i] or '')
  end
end

local is_empty = false
while not is_empty and cleared < limit and bytes < ENOUGH do
  local ids = next_ids(math.min(AT_ONCE, limit - cleared))
  is_empty = #ids == 0
  if not is_empty then
    take_out(ids)
    cleared = cleared + #ids
  end
end
if is_empty then
  call('DEL', base .. 'notify:' .. queue)
end
-- Last, for a callback may have come into this very queue.
ties().finish()
return cleared
