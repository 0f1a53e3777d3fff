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
    first = math.min(first, earliest(queue))
  end
end
return first < math.huge and stamp(math.max(0, first - now)) or ''
