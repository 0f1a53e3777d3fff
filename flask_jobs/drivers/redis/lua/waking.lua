-- Waking: idle workers block on the notify lists of their queues. While a queue has work and nobody is on his
-- way to it there is an element in its list, and a list is emptied by whoever sees its queue empty, so that none
-- wakes for nothing.
local WAKES = 32

local function paused_until(queue)
  local till = redis.call('HGET', base .. 'paused', queue)
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
local function ring(queue, jobs)
  local list = base .. 'notify:' .. queue
  local missing = math.min(jobs, WAKES) - redis.call('LLEN', list)
  if missing > 0 then
    local elements = {}
    for i = 1, missing do
      elements[i] = '1'
    end
    redis.call('RPUSH', list, unpack(elements))
  end
end

local function wake(queue, jobs)
  if not is_paused(queue) then
    ring(queue, jobs)
  end
end

-- A new earliest due instant: somebody has to learn of it.
local function wake_for_due(queue, due)
  local head = redis.call('ZRANGE', base .. 'delayed:' .. queue, 0, 0, 'WITHSCORES')
  if head[2] and tonumber(head[2]) >= due then
    wake(queue, 1)
  end
end

local function has_work(queue)
  if redis.call('EXISTS', base .. 'head:' .. queue, base .. 'ready:' .. queue) > 0 then
    return true
  end
  return redis.call('ZCOUNT', base .. 'delayed:' .. queue, '-inf', NOW) > 0
end
