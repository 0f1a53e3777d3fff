-- When limits have room: the reckoning of turns.py, step by step.
local SEEN_AT_ONCE, HOPS = 100, 50

local function whole(number)
  return string.format('%.0f', number)
end

local function slice_at(quota, at)
  local number = math.floor(at / quota.length)
  if (number + 1) * quota.length <= at then
    return number + 1
  end
  if number * quota.length > at then
    return number - 1
  end
  return number
end

local function new_line(quota)
  local present = slice_at(quota, now)
  local amount, frontier, last = unpack(call('HMGET', base .. 'limit:' .. quota.key, 'amount', 'frontier', 'last'))
  -- Where there is room depends on the amount, which the application may change at any time.
  local is_known = amount and tonumber(amount) == quota.amount
  return {
    quota = quota,
    frontier = math.max(present, is_known and tonumber(frontier) or present),
    last = tonumber(last or '') or present - quota.span,
    from = 0,
    to = -1,
    taken = {},
  }
end

local function look(line, first, last)
  line.from, line.to, line.taken = first, last, {}
  local slices = base .. 'slices:' .. line.quota.key
  for _, member in ipairs(call('ZRANGEBYSCORE', slices, whole(first), whole(last))) do
    local number, taken = string.match(member, '^(-?%d+):(%d+)$')
    line.taken[tonumber(number)] = tonumber(taken)
  end
end

local function has_room(line, number)
  local span = line.quota.span
  local first, last = number - span + 1, number + span - 1
  if first < line.from or last > line.to then
    look(line, first, last + SEEN_AT_ONCE - 1)
  end
  for from = first, number do
    local sum = 0
    for place = from, from + span - 1 do
      sum = sum + (line.taken[place] or 0)
    end
    if sum >= line.quota.amount then
      return false
    end
  end
  return true
end

local function behind_all(line, number)
  return math.max(number, line.last + line.quota.span)
end

local function next_room(line, at)
  local quota = line.quota
  local wanted = slice_at(quota, at)
  local first = math.max(wanted, line.frontier)
  local is_whole = first == line.frontier
  for number = first, first + SEEN_AT_ONCE - 1 do
    if has_room(line, number) then
      if is_whole then
        line.frontier = number
      end
      return number == wanted and at or number * quota.length
    end
  end
  if is_whole then
    line.frontier = first + SEEN_AT_ONCE
  end
  return behind_all(line, wanted) * quota.length
end

local function earliest(lines)
  local at, blocker = now, nil
  local function move(place, room)
    if room > at then
      at, blocker = room, place
    end
  end
  for _ = 1, HOPS do
    local before = at
    for place, line in ipairs(lines) do
      move(place, next_room(line, at))
    end
    if at == before then
      return at, blocker
    end
  end
  for place, line in ipairs(lines) do
    move(place, behind_all(line, slice_at(line.quota, at)) * line.quota.length)
  end
  return at, blocker
end
