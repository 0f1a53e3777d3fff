-- uses: common jobs places memory waking failing finding open_keys(keys)
-- Which of the old ids are retried under the new ones, and the others' numbers, each with the job that holds its unique
-- key. Stops when it has carried enough bytes, so that it never takes long.
local ENOUGH = 8000000
local done, held, bytes, woken = {}, {}, 0, {}
local keys

-- The new job takes the key of the old one, and its place in its chain.
local function tie(id, digest, bound, chain, link, callback)
  if digest ~= '' then
    keys.take(digest, bound, id)
  end
  local key = base .. 'chain:' .. chain
  if callback == '' and chain ~= '' and redis.pcall('HGET', key, 'link') == link then
    call('HSET', key, 'job', id)
  end
end

local function renew(fields, old)
  note(fields, 'retried', fields[ATTEMPTS], 'repeats ' .. old)
  if fields[DEADLINE] ~= '' then
    fields[DEADLINE] = stamp(now + fields[DEADLINE] - fields[PUSHED])
  end
  for counter = 1, 4 do
    fields[counter] = '0'
  end
  fields[PUSHED], fields[ORIGIN] = NOW, old
end

-- The job that holds the key, or nil when the old one is retried.
local function retry(old, new, fields)
  local digest, bound, chain, link, _, callback = string.match(fields[TIES], KNOT)
  keys = digest and (keys or open_keys())
  local holder = digest and digest ~= '' and keys.holder(digest)
  if holder then
    return holder
  end
  unbury(old, fields)
  renew(fields, old)
  local value, queue = value_of(fields), fields[QUEUE]
  call('HSET', JOBS, new, value)
  call('RPUSH', base .. 'ready:' .. queue, new)
  call('SADD', base .. 'queues', queue)
  bytes, woken[queue] = bytes + #value, (woken[queue] or 0) + 1
  if digest then
    tie(new, digest, bound, chain, link, callback)
  end
end

for i = 1, tonumber(take()) do
  local old, new = take(), take()
  local fields = bytes < ENOUGH and buried(old)
  if fields then
    local holder = retry(old, new, fields)
    if holder then
      held[#held + 1] = i - 1
      held[#held + 1] = holder
    else
      done[#done + 1] = i - 1
    end
  end
end
for queue, jobs in pairs(woken) do
  wake(queue, jobs)
end
return {done, held}
