-- Storing jobs that arrive, each once by its id. Opened where there are some, for each function made costs every call of
-- a script.

-- A push as it is planned: what `put` takes.
local PLANNED = '^([^\31]*)\31([%w_.-]+)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31(.*)$'

local function open_store()
  -- `rest` is all that follows the deadline in a stored job. Most have neither origin nor ties.
  local ZEROS, PLAIN = '0' .. SEP .. '0' .. SEP .. '0' .. SEP .. '0' .. SEP, SEP .. SEP
  local KEYED = '^[^\31]*\31([^\31\29]+)\29[^\31\29]*\29[^\31\29]*\29([^\31\29]*)\29'
  local has_failed = call('EXISTS', base .. 'failed') == 1
  local store, arrivals, keys = {}, {}, nil

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

  -- Stores one job; gives 1, or 0 if its id is known, or the id of the job that holds its key; and its value. The first
  -- write is one that a full server refuses, so that nothing is half-written.
  function store.put(id, queue, front, due, deadline, name, rest)
    if is_used(id) or (has_failed and call('HEXISTS', base .. 'failed', id) == 1) then
      return 0
    end
    local digest, bound
    if sub(rest, 1, 2) ~= PLAIN then
      digest, bound = string.match(rest, KEYED)
    end
    deadline = deadline ~= '' and stamp(instant(deadline)) or ''
    local value = ZEROS .. name .. SEP .. queue .. SEP .. NOW .. SEP .. deadline .. SEP .. rest
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

  local function add(command, key, items)
    for first = 1, #items, 2000 do
      call(command, key, unpack(items, first, math.min(first + 1999, #items)))
    end
  end

  -- Lets what has arrived stand in its queues, and wakes who waits for it.
  function store.deliver()
    for queue, new in pairs(arrivals) do
      call('SADD', base .. 'queues', queue)
      add('LPUSH', base .. 'head:' .. queue, new.head)
      add('RPUSH', base .. 'ready:' .. queue, new.ready)
      add('ZADD', base .. 'delayed:' .. queue, new.delayed)
      if #new.head + #new.ready > 0 then
        wake(queue, #new.head + #new.ready)
      elseif new.due < math.huge then
        wake_for_due(queue, new.due)
      end
    end
    arrivals = {}
  end

  return store
end
