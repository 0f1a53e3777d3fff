-- Remembering that jobs have ended.
local function mark_of(kind, receipt)
  return struct.pack('>I4', tonumber(sub(redis.sha1hex(kind .. receipt), 1, 8), 16))
end

-- A worker may repeat a settlement as long as it may believe that its lease lives.
local function keep(place)
  call('EXPIRE', place, math.ceil(math.max(remember_ids, retry_after, 1)))
end

local function remember(ids, mark)
  local value = mark .. struct.pack('>I6', remember_ids > 0 and (now + remember_ids) * 1000 or 0)
  local open, entries
  for _, id in ipairs(ids) do
    local place = place_of(id)
    if place ~= open then
      if open then
        call('HSET', open, unpack(entries))
        keep(open)
      end
      open, entries = place, {}
    end
    entries[#entries + 1] = field_of(id)
    entries[#entries + 1] = value
  end
  if open then
    call('HSET', open, unpack(entries))
    keep(open)
  end
end

local function was_applied(id, mark)
  local place = place_of(id)
  local field = field_of(id)
  local value = call('HGET', place, field)
  if value and sub(value, 1, 4) == mark then
    return true
  end
  return call('HEXISTS', place, field .. mark) == 1
end
