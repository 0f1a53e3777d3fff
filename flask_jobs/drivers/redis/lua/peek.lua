-- uses: common waking
-- Seconds until one of the queues may have work, 0 if one has; empty when nothing is in sight. Writes nothing.
local first = math.huge
for _ = 1, tonumber(take()) do
  local queue = take()
  local pause = paused_until(queue)
  if pause and pause > now then
    first = math.min(first, pause)
  elseif has_work(queue) then
    return '0'
  else
    for _, set in ipairs({'delayed:', 'reserved:'}) do
      local head = redis.call('ZRANGE', base .. set .. queue, 0, 0, 'WITHSCORES')
      first = math.min(first, tonumber(head[2] or '') or math.huge)
    end
  end
end
return first < math.huge and stamp(math.max(0, first - now)) or ''
