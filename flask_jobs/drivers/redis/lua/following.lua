-- What the end of a job with ties is told to: its unique key, its chain, its batch; and the jobs that follow from it.
--
-- A chain is a hash: how many links, which of them is under way and as which job, and what is planned: the links
-- after it by their numbers, and `catch`. A batch is a hash: its counts, and the callbacks that have not been pushed
-- by their roles. `open` counts the pushes of members that are under way, each of which has a mark; as long as there
-- are any, it is not whole. A planned push is deleted in the step that carries it out.
local COUNTS = {'total', 'pending', 'done', 'failed', 'skipped', 'callbacks', 'open'}
local STATES = {'allow', 'cancelled', 'finished'}
local COUNTED_AS = {done = 'done', failed = 'failed', skipped = 'skipped', removed = 'skipped', forgotten = 'skipped'}
local ties, batches, followed = {}, {}, {}
keys = open_keys()

local function ties_of(value)
  local origin, tied = string.match(value or '', TIED)
  if tied and string.find(tied, KNOT) then
    return origin, tied
  end
end

-- An id whose data is gone, which only eviction or a foreign hand can bring about, is kept as what it is.
local GONE = '["flask_jobs.errors.MalformedEnvelope", "The data of this job is gone from the server: evicted, or ' ..
  'deleted by somebody else. It was still to be run.", "", []]'

-- Damaged data is kept as it is, in place of a body.
local DAMAGED = '["flask_jobs.errors.MalformedEnvelope", "The data of this job cannot be read: it was cut or changed ' ..
  'on the server by somebody else.", "", []]'

local function bury_remains(id, queue, value)
  local _, tied = ties_of(value)
  local fields = {'0', '0', '0', '0', 'unknown', queue, NOW, '', '', tied or '', '', value or ''}
  bury(id, fields, value and DAMAGED or GONE)
  call('HDEL', JOBS, id)
end

local function is_instant(text)
  return text == '' or tonumber((string.gsub(text, '^%+', '', 1)))
end

-- Carries out what was planned; gives id and answer, or nothing if it is damaged or gone, which is kept as a failed job.
local function follow(planned, owner, queue)
  local push = {string.match(planned or '', PLANNED)}
  if not (push[1] and is_instant(push[4]) and is_instant(push[5])) then
    bury_remains(owner, queue, planned)
    return nil
  end
  local answer, value = put(unpack(push))
  if value then
    for _, part in ipairs({push[1], value, answer == 1 and '' or answer}) do
      followed[#followed + 1] = part
    end
  end
  return push[1], answer
end

local function tell_chain(chain, link, queue, ending)
  local key = base .. 'chain:' .. chain
  local state = redis.pcall('HMGET', key, 'link', 'total')
  if state[1] ~= link then
    return
  end
  if ending == 'failed' then
    local catch = call('HGET', key, 'catch')
    if catch then
      call('HDEL', key, 'catch')
      follow(catch, chain, queue)
    end
  elseif ending == 'removed' or ending == 'forgotten' or link == state[2] then
    call('DEL', key)
  else
    local following = stamp(link + 1)
    local id, answer = follow(call('HGET', key, following), chain, queue)
    if id and type(answer) == 'number' then
      call('HDEL', key, following)
      call('HSET', key, 'link', following, 'job', id)
    else
      call('DEL', key)
    end
  end
end

-- Whether nobody will ask for it: a failed member may be retried until it is forgotten, and is counted otherwise then.
local function is_over(batch)
  return batch.finished ~= '' and batch.callbacks == 0 and batch.failed <= 0
end

local function load_batch(id)
  local batch = {id = id, key = base .. 'batch:' .. id, ran = {}}
  local counts = redis.pcall('HMGET', batch.key, unpack(COUNTS))
  for i, name in ipairs(COUNTS) do
    batch[name] = tonumber(counts[i] or '')
    if not batch[name] then
      return nil
    end
  end
  for i, state in ipairs(call('HMGET', batch.key, unpack(STATES))) do
    batch[STATES[i]] = state or ''
  end
  batch.was_over = is_over(batch)
  return batch
end

-- The batch, or nil; what is changed of it is written by `finish`.
function ties.batch(id)
  if batches[id] == nil then
    batches[id] = load_batch(id) or false
  end
  return batches[id] or nil
end

function ties.new_batch(id, allow)
  local batch = {id = id, key = base .. 'batch:' .. id, ran = {}, allow = allow, cancelled = '', finished = ''}
  for _, name in ipairs(COUNTS) do
    batch[name] = 0
  end
  batches[id] = batch
  return batch
end

local function save(batch)
  local entries = {}
  for _, names in ipairs({COUNTS, STATES}) do
    for _, name in ipairs(names) do
      entries[#entries + 1] = name
      entries[#entries + 1] = batch[name]
    end
  end
  call('HSET', batch.key, unpack(entries))
  local is_over_now = is_over(batch)
  if is_over_now and not batch.was_over then
    call('ZADD', base .. 'batches:over', batch.finished, batch.id)
  elseif batch.was_over and not is_over_now then
    call('ZREM', base .. 'batches:over', batch.id)
  end
end

local function run_callback(batch, role, queue)
  if batch.ran[role] then
    return
  end
  batch.ran[role] = true
  local planned = call('HGET', batch.key, role)
  if planned then
    call('HDEL', batch.key, role)
    local _, answer = follow(planned, batch.id, queue)
    if answer == 1 then
      batch.callbacks = batch.callbacks + 1
    end
  end
end

-- Takes away the marks of those that hold the batch open until some instant before this one, which have lost their
-- worker; or all, for math.huge. Gives how many.
function ties.close(batch, before)
  local closed = 0
  if batch.open > 0 then
    for _, field in ipairs(call('HKEYS', batch.key)) do
      if sub(field, 1, #OPENED_BY) == OPENED_BY then
        local till = tonumber(call('HGET', batch.key, field))
        if before == math.huge or (till and till <= before) then
          closed = closed + call('HDEL', batch.key, field)
        end
      end
    end
    batch.open = before == math.huge and 0 or batch.open - closed
  end
  return closed
end

-- Pushes the callbacks that are due as the batch stands, each once.
function ties.call_back(batch, queue)
  ties.close(batch, now)
  if batch.failed > 0 then
    run_callback(batch, 'catch', queue)
  end
  if batch.open == 0 and batch.pending <= 0 then
    if batch.failed <= 0 and batch.cancelled == '' then
      run_callback(batch, 'then', queue)
    end
    run_callback(batch, 'finally', queue)
    if batch.finished == '' then
      batch.finished = NOW
    end
  end
end

-- `again`: the member had failed before, and is counted as failed.
local function count(batch, ending, again)
  if again and ending == 'failed' then
    return
  end
  local from, to = again and 'failed' or 'pending', COUNTED_AS[ending]
  batch[from] = batch[from] - 1
  batch[to] = batch[to] + 1
  if ending == 'failed' and batch.allow == '' and batch.cancelled == '' then
    batch.cancelled = NOW
  end
end

local function tell_batch(batch, id, queue, is_callback, ending, again)
  -- A job that has added members and ends adds no more of them.
  local opened = batch.open > 0 and call('HDEL', batch.key, OPENED_BY .. id) or 0
  batch.open = batch.open - opened
  if not is_callback then
    count(batch, ending, again)
  elseif ending ~= 'failed' then
    -- One that has failed may be retried, and must still find its batch.
    batch.callbacks = math.max(0, batch.callbacks - 1)
  end
  if not is_callback or opened > 0 then
    ties.call_back(batch, queue)
  end
end

-- Tells what a job is tied to how it has ended: done, skipped, failed, removed, or forgotten after it had failed.
function ties.tell(id, queue, origin, tied, ending)
  local digest, _, chain, link, batch, callback = string.match(tied, KNOT)
  if not digest then
    return
  end
  if digest ~= '' then
    keys.give_back(digest, id)
  end
  if chain ~= '' and callback == '' then
    tell_chain(chain, link, queue, ending)
  end
  local members = batch ~= '' and ties.batch(batch)
  if members then
    tell_batch(members, id, queue, callback ~= '', ending, origin ~= '' or ending == 'forgotten')
  end
end

local function tell_of(id, queue, value, ending)
  local origin, tied = ties_of(value)
  if tied then
    ties.tell(id, queue, origin, tied, ending)
  end
end

-- A waiting job was taken out.
function ties.removed(id, queue, value)
  tell_of(id, queue, value, 'removed')
end

-- Takes jobs out that were settled. One that is named twice is told of once.
function ties.take_out(queue, ids, ending)
  local values = call('HMGET', JOBS, unpack(ids))
  for i, id in ipairs(ids) do
    if call('HDEL', JOBS, id) == 1 then
      tell_of(id, queue, values[i], ending)
    end
  end
end

-- What is left of a job goes to the failed ones, and what it was tied to is told as far as it can be read.
function ties.give_up(id, queue, value)
  bury_remains(id, queue, value)
  tell_of(id, queue, value, 'failed')
end

-- Writes what was counted and lets what followed stand in its queues; gives id, value and holder of each.
function ties.finish()
  deliver()
  for _, batch in pairs(batches) do
    if batch then
      save(batch)
    end
  end
  batches = {}
  return followed
end
