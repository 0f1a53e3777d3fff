-- uses: common jobs memory waking failing finding
-- Old and new id in turn. Stops when it has carried enough bytes, so that it never takes long.
local ENOUGH = 8000000
local done, bytes, woken = {}, 0, {}
for i = 1, tonumber(take()) do
  local old, new = take(), take()
  local fields = bytes < ENOUGH and unbury(old)
  if fields then
    note(fields, 'retried', fields[ATTEMPTS], 'repeats ' .. old)
    if fields[DEADLINE] ~= '' then
      fields[DEADLINE] = stamp(now + fields[DEADLINE] - fields[PUSHED])
    end
    for counter = 1, 4 do
      fields[counter] = '0'
    end
    fields[PUSHED], fields[ORIGIN] = NOW, old
    local value, queue = value_of(fields), fields[QUEUE]
    call('HSET', JOBS, new, value)
    call('RPUSH', base .. 'ready:' .. queue, new)
    call('SADD', base .. 'queues', queue)
    bytes, woken[queue] = bytes + #value, (woken[queue] or 0) + 1
    done[#done + 1] = i - 1
  end
end
for queue, jobs in pairs(woken) do
  wake(queue, jobs)
end
return done
