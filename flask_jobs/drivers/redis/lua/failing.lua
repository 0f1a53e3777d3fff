-- Failed jobs: a hash of records, and one index for all, one for each queue and name, all by position, and one
-- by age. A position is never given out twice.
local FAILED, AGES = base .. 'failed', base .. 'failed:age'

local function failed_index(queue, name)
  if name ~= '' then
    return FAILED .. ':name:' .. name
  elseif queue ~= '' then
    return FAILED .. ':queue:' .. queue
  end
  return FAILED .. ':all'
end

local function bury(id, fields, error)
  local place = call('INCR', FAILED .. ':last')
  local record = table.concat({'pending', NOW, place, error, value_of(fields)}, SEP)
  call('HSET', FAILED, id, record)
  call('ZADD', AGES, NOW, id)
  call('ZADD', failed_index('', ''), place, id)
  call('ZADD', failed_index(fields[QUEUE], ''), place, id)
  call('ZADD', failed_index('', fields[NAME]), place, id)
end

-- An id whose data is gone, which only eviction or a foreign hand can bring about, is kept as what it is.
local GONE = '["flask_jobs.errors.MalformedEnvelope", "The data of this job is gone from the server: evicted, or ' ..
  'deleted by somebody else. Its id was still queued.", "", []]'

-- Damaged data is kept as it is, in place of a body.
local DAMAGED = '["flask_jobs.errors.MalformedEnvelope", "The data of this job cannot be read: it was cut or changed ' ..
  'on the server by somebody else.", "", []]'

local function bury_remains(id, queue, value)
  local _, tied = ties_of(value)
  local fields = {'0', '0', '0', '0', 'unknown', queue, NOW, '', '', tied or '', '', value or ''}
  bury(id, fields, value and DAMAGED or GONE)
  call('HDEL', JOBS, id)
end
