-- Storing a portion of jobs at once.

-- The jobs that stand next in the arguments, in groups: what the jobs of a group have in common (queue, front, due,
-- deadline, name), how many they are, and id and rest of each.
local function take_jobs()
  local ids, rests, groups = {}, {}, {}
  local total = tonumber(take())
  while #ids < total do
    local group = {take(), take(), take(), take(), take()}
    for _ = 1, tonumber(take()) do
      local i = #ids + 1
      ids[i], rests[i], groups[i] = take(), take(), group
    end
  end
  return ids, rests, groups
end

-- Which of these ids are in use, or were used by jobs that have ended or failed.
local function known_among(ids)
  local known, exists = {}, {}
  for _, id in ipairs(ids) do
    local place = place_of(id)
    if exists[place] == nil then
      exists[place] = call('EXISTS', place) == 1
    end
    known[id] = exists[place] and is_used(id)
  end
  local stored = call('HMGET', JOBS, unpack(ids))
  local failed = call('EXISTS', FAILURES) == 1 and call('ZMSCORE', FAILURES, unpack(ids)) or {}
  for i, id in ipairs(ids) do
    known[id] = known[id] or stored[i] or failed[i]
  end
  return known
end

-- Stores the jobs that stand next in the arguments; gives their ids, and for each what `put` gives. What holds no key
-- is stored at once.
local function put_all()
  local ids, rests, groups = take_jobs()
  if #ids == 0 then
    return ids, {}
  end
  local known = known_among(ids)
  local answers, entries, group, head = {}, {}, nil, nil
  for i, id in ipairs(ids) do
    local rest = rests[i]
    if groups[i] ~= group then
      group = groups[i]
      head = head_of(group[1], group[4], group[5])
    end
    if known[id] then
      answers[i] = 0
    elseif key_in(rest) then
      answers[i] = put(id, group[1], group[2], group[3], group[4], group[5], rest)
      known[id] = answers[i] == 1
    else
      answers[i], known[id] = 1, true
      entries[#entries + 1], entries[#entries + 2] = id, head .. rest
      place(id, group[1], group[2], group[3])
    end
  end
  if #entries > 0 then
    call('HSET', JOBS, unpack(entries))
  end
  return ids, answers
end
