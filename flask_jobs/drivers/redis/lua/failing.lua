-- Failed jobs: a hash of records, and one index for all, one for each queue and name, all by position, and one
-- by age. A position is never given out twice.
local FAILED, AGES = base .. 'failed', base .. 'failed:age'
local RECORD = '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$'

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

-- Takes the record out and gives the job that it holds, or nil.
local function unbury(id)
  local record = call('HGET', FAILED, id)
  if not record then
    return nil
  end
  local fields = fields_of(string.match(record, RECORD))
  call('HDEL', FAILED, id)
  call('ZREM', AGES, id)
  call('ZREM', failed_index('', ''), id)
  call('ZREM', failed_index(fields[QUEUE], ''), id)
  call('ZREM', failed_index('', fields[NAME]), id)
  return fields
end

-- An id whose data is gone, which only eviction or a foreign hand can bring about, is kept as what it is.
local GONE = '["flask_jobs.errors.MalformedEnvelope", "The data of this job is gone from the server: evicted, or ' ..
  'deleted by somebody else. Its id was still queued.", "", []]'

local function bury_remains(id, queue)
  bury(id, {'0', '0', '0', '0', 'unknown', queue, NOW, '', '', '', ''}, GONE)
end
