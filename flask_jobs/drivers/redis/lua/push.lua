-- uses: common memory waking
-- Stores a portion. The first write is one that a full server refuses, so that nothing is half-written.
local has_failed = call('EXISTS', base .. 'failed') == 1
local ZEROS = '0' .. SEP .. '0' .. SEP .. '0' .. SEP .. '0' .. SEP
local arrivals, answers = {}, {}

local function is_used(id)
  local place, field = place_of(id)
  local value = call('HGET', place, field)
  return value and struct.unpack('>I6', value, 5) > now * 1000
end

local function arrival(queue)
  local found = arrivals[queue]
  if not found then
    found = {head = {}, ready = {}, delayed = {}, due = math.huge}
    arrivals[queue] = found
  end
  return found
end

local function place(id, queue, front, due)
  local to = arrival(queue)
  if due ~= '' then
    local at = instant(due)
    to.delayed[#to.delayed + 1] = stamp(at)
    to.delayed[#to.delayed + 1] = id
    to.due = math.min(to.due, at)
  elseif front ~= '' then
    -- Each goes before the others at last, so the last one must be written first.
    table.insert(to.head, 1, id)
  else
    to.ready[#to.ready + 1] = id
  end
end

local function store()
  local id, queue, front, due, deadline = take(), take(), take(), take(), take()
  local name, origin, body = take(), take(), take()
  if is_used(id) or (has_failed and call('HEXISTS', base .. 'failed', id) == 1) then
    return 0
  end
  deadline = deadline ~= '' and stamp(instant(deadline)) or ''
  local value = ZEROS .. name .. SEP .. queue .. SEP .. NOW .. SEP .. deadline .. SEP .. origin .. SEP .. SEP .. body
  if call('HSETNX', JOBS, id, value) == 0 then
    return 0
  end
  place(id, queue, front, due)
  return 1
end

for i = 1, tonumber(take()) do
  answers[i] = store()
end
for queue, new in pairs(arrivals) do
  call('SADD', base .. 'queues', queue)
  if #new.head > 0 then
    call('LPUSH', base .. 'head:' .. queue, unpack(new.head))
  end
  if #new.ready > 0 then
    call('RPUSH', base .. 'ready:' .. queue, unpack(new.ready))
  end
  if #new.delayed > 0 then
    call('ZADD', base .. 'delayed:' .. queue, unpack(new.delayed))
  end
  if #new.head + #new.ready > 0 then
    wake(queue, #new.head + #new.ready)
  elseif new.due < math.huge then
    wake_for_due(queue, new.due)
  end
end
return answers
