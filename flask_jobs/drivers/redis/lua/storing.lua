-- Storing jobs that arrive, each once by its id.

-- A push as it is planned: what `put` takes.
local PLANNED = '^([^\31]*)\31([%w_.-]+)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31(.*)$'
-- The last of these is all that follows the deadline in a stored job; most have neither origin nor ties.
local PLAIN, KEYED = '\31\31', '^[^\31]*\31([^\31\29]+)\29[^\31\29]*\29[^\31\29]*\29([^\31\29]*)\29'
local ZEROS = '0\0310\0310\0310\031'

local FAILURES = base .. 'failed:all'
local arrivals, keys = {}, nil

local function is_used(id)
  local value = call('HGET', place_of(id), field_of(id))
  return value and struct.unpack('>I6', value, 5) > now * 1000
end

local function place(id, queue, front, due)
  local to = arrivals[queue]
  if not to then
    to = {head = {}, ready = {}, delayed = {}, due = math.huge}
    arrivals[queue] = to
  end
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

-- What a stored job begins with.
local function head_of(queue, deadline, name)
  deadline = deadline ~= '' and stamp(instant(deadline)) or ''
  return ZEROS .. name .. SEP .. queue .. SEP .. NOW .. SEP .. deadline .. SEP
end

local function key_in(rest)
  if sub(rest, 1, 2) ~= PLAIN then
    return string.match(rest, KEYED)
  end
end

-- Stores one job; gives 1, or 0 if its id is known, or the id of the job that holds its key; and its value. The first
-- write is one that a full server refuses, so that nothing is half-written.
local function put(id, queue, front, due, deadline, name, rest)
  if is_used(id) or call('ZSCORE', FAILURES, id) then
    return 0
  end
  local value = head_of(queue, deadline, name) .. rest
  local digest, bound = key_in(rest)
  if digest then
    keys = keys or open_keys()
    local holder = keys.holder(digest)
    if holder and call('HEXISTS', JOBS, id) == 0 then
      return holder, value
    end
  end
  if call('HSETNX', JOBS, id, value) == 0 then
    return 0
  end
  if digest then
    keys.take(digest, bound, id)
  end
  place(id, queue, front, due)
  return 1, value
end

-- Lets what has arrived stand in its queues, and wakes who waits for it.
local function deliver()
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
  arrivals = {}
end
