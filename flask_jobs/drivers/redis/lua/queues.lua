-- uses: common waking
-- Of the names given, those that hold a job or are paused; the others are forgotten.
local living = {}
for _ = 1, tonumber(take()) do
  local queue = take()
  local jobs = call('EXISTS', base .. 'head:' .. queue, base .. 'ready:' .. queue, base .. 'delayed:' .. queue,
    base .. 'reserved:' .. queue)
  if jobs > 0 then
    living[#living + 1] = queue
  else
    call('SREM', base .. 'queues', queue)
    if is_paused(queue) then
      living[#living + 1] = queue
    end
  end
end
return living
