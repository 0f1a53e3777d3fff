-- A stored job: its fields in this order, then its body, which is carried along and never looked into.
local ATTEMPTS, INTERRUPTIONS, NAME, QUEUE, PUSHED, DEADLINE, ORIGIN, TIES, HISTORY = 1, 4, 5, 6, 7, 8, 9, 10, 11
local FIELDS = '^(%d+)\31(%d+)\31(%d+)\31(%d+)\31([^\31]*)\31([^\31]*)\31'
local REST = '([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31(.*)$'
local ENTRIES = 20

-- What a value begins with that was written here; gives its attempts, interruptions, name, queue and ties.
local SOUND = '^(%d+)\31%d+\31%d+\31(%d+)\31([^\31]*)\31([^\31]*)\31[-+.%de]+\31[-+.%de]*\31[^\31]*\31([^\31]*)\31[^\31]*\31'

-- The ties of a job, empty for one that stands alone: digest of its unique key, what that says, whether it is held until
-- processing, its bound in seconds; chain, link; batch; whether it is a callback. Gives what scripts need.
local KNOT = '^([^\29]*)\29[^\29]*\29[^\29]*\29([-+.%de]*)\29([^\29]*)\29(%d+)\29([^\29]*)\29([^\29]*)$'
-- Origin and ties, where there are any, also of a job that is damaged elsewhere.
local TIED = '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31([^\31]*)\31([^\31]+)\31'

-- What the mark of a push of members begins with that holds its batch open.
local OPENED_BY = 'open:'

-- Whether it is a job of this queue that was written here; and if so, its attempts, interruptions and name.
local function is_sound(value, queue)
  if not value then
    return false
  end
  local attempts, interruptions, name, found, ties = string.match(value, SOUND)
  return found == queue and (ties == '' or string.find(ties, KNOT) == 1), attempts, interruptions, name
end

local function fields_of(value)
  return {string.match(value, FIELDS .. REST)}
end

local function value_of(fields)
  return table.concat(fields, SEP)
end

local function forget_progress(ids)
  if call('EXISTS', PROGRESS) == 1 then
    call('HDEL', PROGRESS, unpack(ids))
  end
end

-- Adds an entry to a job's history, one JSON array a line, and drops the oldest beyond the bound.
local function note(fields, event, attempt, reason)
  local entry = string.format('["%s", %s, %d, "%s", null]', event, NOW, attempt, reason)
  local history = fields[HISTORY]
  if history == '' then
    fields[HISTORY] = entry
    return
  end
  history = history .. LINE .. entry
  local _, breaks = string.gsub(history, LINE, '')
  for _ = ENTRIES, breaks do
    history = sub(history, string.find(history, LINE, 1, true) + 1)
  end
  fields[HISTORY] = history
end
