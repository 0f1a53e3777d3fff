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
