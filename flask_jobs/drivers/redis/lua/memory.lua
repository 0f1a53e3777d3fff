-- What is remembered of jobs that have ended: which ids are used up, and which settlements were applied.
--
-- At 20,000 jobs a second there are 72 million ids an hour, so it has to be small: ids made within the same 16 ms
-- share small hashes (they usually end together, too), which the server packs into one block each. However many
-- an application makes in a millisecond, a hash holds sixteen of each, for their count goes into its name. A field
-- is what the id has beyond that; its value a mark of the settlement and the millisecond until which the id is
-- used up.
local function place_of(id)
  local a = tonumber(sub(id, 10, 13) .. sub(id, 15, 18), 16)
  local b = tonumber(sub(id, 20, 23) .. sub(id, 25, 28), 16)
  local c = tonumber(sub(id, 29, 36), 16)
  if #id == 36 and a and b and c then
    return base .. 'ended:' .. sub(id, 1, 12) .. sub(id, 16, 17), struct.pack('>I4I4I4', a, b, c)
  end
  return base .. 'ended:' .. id, '-'
end

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
    local place, field = place_of(id)
    if place ~= open then
      if open then
        call('HSET', open, unpack(entries))
        keep(open)
      end
      open, entries = place, {}
    end
    entries[#entries + 1] = field
    entries[#entries + 1] = value
  end
  if open then
    call('HSET', open, unpack(entries))
    keep(open)
  end
end

local function was_applied(id, mark)
  local place, field = place_of(id)
  local value = call('HGET', place, field)
  if value and sub(value, 1, 4) == mark then
    return true
  end
  return call('HEXISTS', place, field .. mark) == 1
end
