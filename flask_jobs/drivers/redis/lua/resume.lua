-- uses: common waking
local queue = take()
local was_paused = is_paused(queue)
call('HDEL', base .. 'paused', queue)
if has_work(queue) then
  wake(queue, WAKES)
end
return was_paused and 1 or 0
