-- uses: common jobs
-- Where each of these jobs is and what is stored of it; nothing for one that is gone or damaged. A reserved one is looked
-- for among what the workers of its queue hold.
local held = {}

local function leases(queue)
  if held[queue] then
    return held[queue]
  end
  local found = {}
  local members = call('ZRANGE', base .. 'reserved:' .. queue, 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    found[sub(members[i], string.find(members[i], SEP, 1, true) + 1)] = members[i + 1]
  end
  held[queue] = found
  return found
end

local function seen(id)
  local value = call('HGET', JOBS, id)
  local queue = value and select(4, string.match(value, SOUND))
  if not queue or not is_sound(value, queue) then
    return {}
  end
  local progress = call('HGET', PROGRESS, id) or ''
  local due = call('ZSCORE', base .. 'delayed:' .. queue, id)
  if due then
    return {id, value, tonumber(due) > now and 'delayed' or 'ready', due, progress}
  end
  local lease = leases(queue)[id]
  return {id, value, lease and 'reserved' or 'ready', lease or '', progress}
end

local answers = {}
for i = 1, tonumber(take()) do
  answers[i] = seen(take())
end
return answers
