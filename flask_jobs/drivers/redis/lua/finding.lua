local RECORD = '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$'

-- The job that the record with this id holds, or nil.
local function buried(id)
  local record = call('HGET', FAILED, id)
  return record and fields_of(string.match(record, RECORD))
end

-- Takes the record out.
local function unbury(id, fields)
  call('HDEL', FAILED, id)
  call('ZREM', AGES, id)
  call('ZREM', failed_index('', ''), id)
  call('ZREM', failed_index(fields[QUEUE], ''), id)
  call('ZREM', failed_index('', fields[NAME]), id)
end
