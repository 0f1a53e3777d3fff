-- What jobs have booked of limits: a hash of their ids, with a line for each quota (name of the limiter, key, slice,
-- the first slice that giving it back may free, when the slice ends).
local BOOKINGS, BOOKED_UNTIL = base .. 'bookings', base .. 'bookings:until'

-- Lets others have one start that a quota was charged with.
local function put_back(key, number, reopens)
  local slices = base .. 'slices:' .. key
  local member = call('ZRANGEBYSCORE', slices, number, number)[1]
  if member then
    call('ZREM', slices, member)
    local taken = tonumber(string.match(member, ':(%d+)$')) - 1
    if taken > 0 then
      call('ZADD', slices, number, string.format('%s:%d', number, taken))
    end
  end
  local frontier = call('HGET', base .. 'limit:' .. key, 'frontier')
  if frontier and tonumber(frontier) > tonumber(reopens) then
    call('HSET', base .. 'limit:' .. key, 'frontier', reopens)
  end
end

-- Lets others have what the job has booked, under one name or all; gives what it was.
local function free(id, name)
  local text = call('HGET', BOOKINGS, id)
  local freed, kept = {}, {}
  for line in string.gmatch(text or '', '[^\30]+') do
    local of, key, number, reopens, till = string.match(line, '^(.-)\31(.-)\31(.-)\31(.-)\31(.-)$')
    if not name or of == name then
      freed[#freed + 1] = {key = key, number = number, reopens = reopens, till = till}
    else
      kept[#kept + 1] = line
    end
  end
  if #freed > 0 and #kept > 0 then
    call('HSET', BOOKINGS, id, table.concat(kept, LINE))
  elseif #freed > 0 then
    call('HDEL', BOOKINGS, id)
    call('ZREM', BOOKED_UNTIL, id)
  end
  return freed
end

local function give_back(id)
  local freed = free(id)
  for _, one in ipairs(freed) do
    put_back(one.key, one.number, one.reopens)
  end
  return #freed
end
