-- Releases and failures, the first of them with this number. Those that come too late are added to `stale`.
function ties.put_back_and_fail(count, number, stale)
  -- A delivery that ended while the job goes on: noted apart, for the id itself is still in use.
  local function remember_delivery(id, mark)
    local place = place_of(id)
    call('HSET', place, field_of(id) .. mark, '')
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
      ties.give_up(id, queue, value)
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
      ties.tell(id, queue, fields[ORIGIN], fields[TIES], 'failed')
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
