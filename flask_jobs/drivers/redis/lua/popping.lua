-- Popping. A queue has three lanes: its head (pushed to the front, or recovered), which comes first, and then the
-- ready and the due ones, which take turns as long as both have work.
local RECLAIMED_AT_ONCE = 100
-- No answer grows beyond this many bytes, but for a single job.
local ENOUGH = 4000000

local function split(member)
  local at = string.find(member, SEP, 1, true)
  return sub(member, 1, at - 1), sub(member, at + 1)
end

-- Takes in one expired lease. Popped alone, it may be what brought its worker down, and keeps its attempt; popped
-- with others, nobody knows whether it had started: not charged, and from now on popped alone.
local function take_in(queue, member, reclaimed)
  local receipt, id = split(member)
  local value = call('HGET', JOBS, id)
  if not is_sound(value, queue) then
    ties().give_up(id, queue, value)
    return
  end
  local fields, charged = fields_of(value), sub(receipt, 1, 1)
  local attempt = fields[ATTEMPTS] + 1
  if charged == '1' then
    fields[ATTEMPTS] = attempt
    note(fields, 'lease-expired', attempt, 'the lease ran out')
  else
    fields[INTERRUPTIONS] = fields[INTERRUPTIONS] + 1
    note(fields, 'interrupted', attempt, 'the lease ran out; popped together with others')
  end
  call('HSET', JOBS, id, value_of(fields))
  call('ZADD', base .. 'delayed:' .. queue, NOW, id)
  forget_progress({id})
  for _, part in ipairs({id, value, charged}) do
    reclaimed[#reclaimed + 1] = part
  end
end

local function reclaim(queues)
  local reclaimed, left = {}, RECLAIMED_AT_ONCE
  for _, queue in ipairs(queues) do
    local reserved = base .. 'reserved:' .. queue
    local expired = call('ZRANGEBYSCORE', reserved, '-inf', NOW, 'LIMIT', 0, left)
    if #expired > 0 then
      call('ZREM', reserved, unpack(expired))
      left = left - #expired
    end
    for _, member in ipairs(expired) do
      take_in(queue, member, reclaimed)
    end
  end
  return reclaimed
end

-- Up to so many waiting ids of the queue, in the order they are to be taken, and the lane of each.
local function in_turn(queue, want)
  local ids = call('LRANGE', base .. 'head:' .. queue, 0, want - 1)
  local lanes = {}
  for i = 1, #ids do
    lanes[i] = 'head'
  end
  if #ids >= want then
    return ids, lanes, false
  end
  local ready = call('LRANGE', base .. 'ready:' .. queue, 0, want - 1)
  local due = call('ZRANGEBYSCORE', base .. 'delayed:' .. queue, '-inf', NOW, 'LIMIT', 0, want)
  local both = #ready > 0 and #due > 0
  local due_first = both and call('HGET', base .. 'turns', queue) == 'due'
  local r, d = 1, 1
  while #ids < want and (ready[r] or due[d]) do
    if due[d] and (due_first or not ready[r]) then
      ids[#ids + 1], lanes[#lanes + 1], d, due_first = due[d], 'due', d + 1, false
    else
      ids[#ids + 1], lanes[#lanes + 1], r, due_first = ready[r], 'ready', r + 1, true
    end
  end
  return ids, lanes, both
end

local function remove(queue, ids, lanes, count, both)
  local from = {head = 0, ready = 0}
  local due = {}
  for i = 1, count do
    if lanes[i] == 'due' then
      due[#due + 1] = ids[i]
    else
      from[lanes[i]] = from[lanes[i]] + 1
    end
  end
  if from.head > 0 then
    call('LPOP', base .. 'head:' .. queue, from.head)
  end
  if from.ready > 0 then
    call('LPOP', base .. 'ready:' .. queue, from.ready)
  end
  if #due > 0 then
    call('ZREM', base .. 'delayed:' .. queue, unpack(due))
  end
  if both and lanes[count] ~= 'head' then
    call('HSET', base .. 'turns', queue, lanes[count] == 'ready' and 'due' or 'ready')
  end
end

local function new_load(limit, box, means)
  return {limit = limit, box = box, means = means, ids = {}, values = {}, queues = {}, used = 0, bytes = 0, full = false}
end

-- A job that has begun before, or was cut short, is only popped alone.
local function expected(load, attempts, interruptions, name)
  if load.limit == 1 or attempts ~= '0' or interruptions ~= '0' then
    return math.huge
  end
  return load.means[name] or math.huge
end

local function fits(load, seconds, value)
  if #load.ids == 0 then
    return true
  end
  return #load.ids < load.limit and load.used + seconds <= load.box and load.bytes + #value <= ENOUGH
end

-- How many to look at next: one first, since it may have to go alone; then as many as the like of it would fill.
local function portion(load)
  local taken = #load.ids
  if taken == 0 or load.used == 0 then
    return taken == 0 and 1 or load.limit - taken
  end
  local more = math.floor((load.box - load.used) * taken / load.used) + 1
  return math.max(1, math.min(load.limit - taken, more))
end

local function fill_once(load, queue)
  local ids, lanes, both = in_turn(queue, portion(load))
  if #ids == 0 then
    return false
  end
  local values, count = call('HMGET', JOBS, unpack(ids)), 0
  local remains = {}
  for i, id in ipairs(ids) do
    local value = values[i]
    local is_whole, attempts, interruptions, name = is_sound(value, queue)
    if is_whole then
      local seconds = expected(load, attempts, interruptions, name)
      if not fits(load, seconds, value) then
        load.full = true
        break
      end
      local place = #load.ids + 1
      load.ids[place], load.values[place], load.queues[place] = id, value, queue
      load.used, load.bytes = load.used + seconds, load.bytes + #value
    else
      remains[#remains + 1] = i
    end
    count = i
  end
  if count > 0 then
    remove(queue, ids, lanes, count, both)
  end
  for _, i in ipairs(remains) do
    ties().give_up(ids[i], queue, values[i])
  end
  load.full = load.full or #load.ids >= load.limit
  return true
end

local function reserve(load, token)
  local receipt = (#load.ids == 1 and '1' or '0') .. token
  local by_queue = {}
  for i, id in ipairs(load.ids) do
    local queue = load.queues[i]
    local leases = by_queue[queue] or {}
    by_queue[queue] = leases
    -- A microsecond apart, so that the leases tell the order of the pop.
    leases[#leases + 1] = now + retry_after + (i - 1) / 1000000
    leases[#leases + 1] = receipt .. SEP .. id
  end
  for queue, leases in pairs(by_queue) do
    call('ZADD', base .. 'reserved:' .. queue, unpack(leases))
  end
end

local function answer(load, due, reclaimed)
  local jobs = {}
  for i, id in ipairs(load.ids) do
    jobs[2 * i - 1], jobs[2 * i] = id, load.values[i]
  end
  return {NOW, #load.ids == 0 and due < math.huge and stamp(due) or '', jobs, reclaimed}
end

local function pop()
  local token, limit, box, means = take(), tonumber(take()), tonumber(take()), take()
  local load = new_load(limit, box, limit > 1 and cjson.decode(means) or {})
  local queues, due = {}, math.huge
  for _ = 1, tonumber(take()) do
    local queue = take()
    local pause = paused_until(queue)
    if pause and pause > now then
      due = math.min(due, pause)
    else
      queues[#queues + 1] = queue
    end
  end
  local reclaimed = reclaim(queues)
  for _, queue in ipairs(queues) do
    while not load.full and fill_once(load, queue) do end
  end
  if opened then
    opened.finish()
  end
  reserve(load, token)
  for _, queue in ipairs(queues) do
    if has_work(queue) then
      ring(queue, 1)
    else
      call('DEL', base .. 'notify:' .. queue)
    end
    if #load.ids == 0 then
      due = math.min(due, earliest(queue))
    end
  end
  return answer(load, due, reclaimed)
end
