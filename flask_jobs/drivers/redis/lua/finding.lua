local RECORD = '^[^\31]*\31[^\31]*\31[^\31]*\31[^\31]*\31(.*)$'

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
