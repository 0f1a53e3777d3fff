-- Waking: idle workers block on the notify lists of their queues. While a queue has work and nobody is on his
-- way to it there is an element in its list, and a list is emptied by whoever sees its queue empty, so that none
-- wakes for nothing.
local WAKES = 32
-- What the elements say: there is work, or: there is a new due instant, look again.
local WORK, DUE = 'work', 'due'

local function paused_until(queue)
  local till = call('HGET', base .. 'paused', queue)
  if till == '' then
    return math.huge
  end
  return tonumber(till or '')
end

local function is_paused(queue)
  local till = paused_until(queue)
  return till and till > now
end

-- For a queue that is known not to be paused.
local function ring(queue, jobs, what)
  local list = base .. 'notify:' .. queue
  local missing = math.min(jobs, WAKES) - call('LLEN', list)
  if missing > 0 then
    local elements = {}
    for i = 1, missing do
      elements[i] = what or WORK
    end
    call('RPUSH', list, unpack(elements))
  end
end

local function wake(queue, jobs, what)
  if not is_paused(queue) then
    ring(queue, jobs, what)
  end
end

-- A new earliest due instant: somebody has to learn of it.
local function wake_for_due(queue, due)
  local head = call('ZRANGE', base .. 'delayed:' .. queue, 0, 0, 'WITHSCORES')
  if head[2] and tonumber(head[2]) >= due then
    wake(queue, 1, DUE)
  end
end

local function has_work(queue)
  if call('EXISTS', base .. 'head:' .. queue, base .. 'ready:' .. queue) > 0 then
    return true
  end
  return call('ZCOUNT', base .. 'delayed:' .. queue, '-inf', NOW) > 0
end

-- When the next delayed job or lease of the queue falls due.
local function earliest(queue)
  local delayed = call('ZRANGE', base .. 'delayed:' .. queue, 0, 0, 'WITHSCORES')
  local reserved = call('ZRANGE', base .. 'reserved:' .. queue, 0, 0, 'WITHSCORES')
  return math.min(tonumber(delayed[2] or '') or math.huge, tonumber(reserved[2] or '') or math.huge)
end
