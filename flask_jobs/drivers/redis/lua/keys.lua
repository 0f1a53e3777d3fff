-- Unique keys: a hash from the digest of each to the id of the job that holds it and, if the key is bounded, until
-- when.
local HOLDS, keys = base .. 'keys', {}

-- The job that holds the key, or nil. One that is gone holds nothing, whatever became of it.
function keys.holder(digest)
  local id, till = string.match(call('HGET', HOLDS, digest) or '', '^([^\31]+)\31?(.*)$')
  if id and (tonumber(till) or math.huge) > now and call('HEXISTS', JOBS, id) == 1 then
    return id
  end
end

function keys.take(digest, bound, id)
  local seconds = tonumber(bound)
  call('HSET', HOLDS, digest, seconds and id .. SEP .. stamp(now + seconds) or id)
end

function keys.give_back(digest, id)
  local hold = call('HGET', HOLDS, digest)
  if hold and string.match(hold, '^[^\31]*') == id then
    call('HDEL', HOLDS, digest)
  end
end

return keys
