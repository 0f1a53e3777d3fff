-- Settling. A delivery is a member of its queue's reserved set, named by receipt and id: removing that member is
-- the fence and the first write. It frees memory, so the server allows it, and what follows in the same
-- script, when it is full.
local stale, number = {}, 0

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
    ties().take_out(queue, live, ending)
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
    ties().put_back_and_fail(others, number, stale)
  end
  return {stale, opened and opened.finish() or {}}
end
