-- Settling. A delivery is a member of its queue's reserved set, named by receipt and id: removing that member is
-- the fence and the first write. It frees memory, so the server allows it, and what follows in the same
-- script, when it is full.
local stale, number = {}, 0

-- Takes jobs with ties out and tells what they are tied to. One that is named twice is told of once.
local function end_tied(queue, ids, ending)
  local values = call('HMGET', JOBS, unpack(ids))
  for i, id in ipairs(ids) do
    local origin, tied = ties_of(values[i])
    if call('HDEL', JOBS, id) == 1 and tied then
      ties().tell(id, queue, origin, tied, ending)
    end
  end
end

-- `ending` is empty for jobs without ties.
local function acknowledge(queue, receipt, ending, ids, mark)
  local reserved, members = base .. 'reserved:' .. queue, {}
  for i, id in ipairs(ids) do
    members[i] = receipt .. SEP .. id
  end
  local leases = call('ZMSCORE', reserved, unpack(members))
  local live, held = {}, {}
  for i, id in ipairs(ids) do
    if leases[i] then
      live[#live + 1], held[#held + 1] = id, members[i]
    elseif not was_applied(id, mark) then
      stale[#stale + 1] = number + i - 1
    end
  end
  number = number + #ids
  if #live == 0 then
    return
  end
  call('ZREM', reserved, unpack(held))
  forget_progress(live)
  remember(live, mark)
  if ending == '' then
    call('HDEL', JOBS, unpack(live))
  else
    end_tied(queue, live, ending)
  end
end

-- Releases and failures are rare: what they need is made when there are some, for each function made costs every
-- call of the script.
local function put_back_and_fail(count)
  -- A delivery that ended while the job goes on: noted apart, for the id itself is still in use.
  local function remember_delivery(id, mark)
    local place, field = place_of(id)
    call('HSET', place, field .. mark, '')
    keep(place)
  end

  -- Ends a delivery that something is to be made of, and gives the job's fields; nil if it came too late or was
  -- settled like this before.
  local function ended(queue, receipt, id, mark)
    number = number + 1
    if call('ZREM', base .. 'reserved:' .. queue, receipt .. SEP .. id) == 0 then
      if not was_applied(id, mark) then
        stale[#stale + 1] = number - 1
      end
      return nil
    end
    forget_progress({id})
    local value = call('HGET', JOBS, id)
    if not is_sound(value, queue) then
      give_up(id, queue, value)
      return nil
    end
    return fields_of(value)
  end

  local function counted(fields)
    for i = 1, 4 do
      fields[i] = take()
    end
    fields[HISTORY] = take()
    return fields
  end

  local function release()
    local queue, receipt, id, due = take(), take(), take(), instant(take())
    local mark = mark_of('release', receipt)
    local fields = ended(queue, receipt, id, mark)
    if not fields then
      counted({})
      return
    end
    call('HSET', JOBS, id, value_of(counted(fields)))
    call('ZADD', base .. 'delayed:' .. queue, stamp(due), id)
    remember_delivery(id, mark)
    if due <= now then
      wake(queue, 1)
    else
      wake_for_due(queue, due)
    end
  end

  local function fail()
    local queue, receipt, id, error = take(), take(), take(), take()
    local mark = mark_of('fail', receipt)
    local fields = ended(queue, receipt, id, mark)
    if not fields then
      counted({})
      return
    end
    call('HDEL', JOBS, id)
    bury(id, counted(fields), error)
    give_back(id)
    remember({id}, mark)
    if fields[TIES] ~= '' then
      ties().tell(id, queue, fields[ORIGIN], fields[TIES], 'failed')
    end
  end

  for _ = 1, count do
    if take() == 'release' then
      release()
    else
      fail()
    end
  end
end

-- The numbers of those that came too late, and what followed from the others.
local function settle()
  for _ = 1, tonumber(take()) do
    local queue, receipt, ending, ids = take(), take(), take(), {}
    for i = 1, tonumber(take()) do
      ids[i] = take()
    end
    acknowledge(queue, receipt, ending, ids, mark_of('ack', receipt))
  end
  local others = tonumber(take())
  if others > 0 then
    put_back_and_fail(others)
  end
  return {stale, finish_ties()}
end
