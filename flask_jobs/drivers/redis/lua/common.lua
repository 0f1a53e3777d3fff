-- What every script begins with. KEYS[1] is the head of all names of a connection, hash tag and all, so that a
-- Cluster finds the slot. The first arguments are the same for all: the present (empty for the server's own
-- clock), how long ids are remembered, and how long a lease lasts.
local SEP, LINE = '\31', '\30'
local call, sub = redis.call, string.sub
local base = KEYS[1]
local JOBS, PROGRESS = base .. 'jobs', base .. 'progress'
local position = 0

local function take()
  position = position + 1
  return ARGV[position]
end

-- 17 digits bring every double back as it was; Lua's own 14 would lose what lies below a millisecond.
local function stamp(number)
  return string.format('%.17g', number)
end

local NOW = take()
if NOW == '' then
  local time = call('TIME')
  NOW = string.format('%s.%06d', time[1], time[2])
end
local now = tonumber(NOW)
local remember_ids, retry_after = tonumber(take()), tonumber(take())

-- '+5' is five seconds from now, '5' is an instant, and empty is none.
local function instant(text)
  if sub(text, 1, 1) == '+' then
    return now + tonumber(sub(text, 2))
  end
  return tonumber(text)
end
