-- Locks: for each key a hash of who holds it. A holder is either a delivery, named as a member of its queue's reserved
-- set and live as long as that, or whoever has it until an instant. Keys are looked at again some time after they
-- were taken, for those that nobody lets go of.
local LOCKS = base .. 'locks'
local SWEPT_AT_ONCE = 10

local function hold_of(text)
  local job, queue, member, till = string.match(text, '^([^\31]*)\31([^\31]*)\31(.*)\31([^\31]*)$')
  local ends = tonumber(till)
  if member ~= '' then
    ends = tonumber(call('ZSCORE', base .. 'reserved:' .. queue, member) or '') or 0
  end
  return {job = job, ends = ends, has_end = member == ''}
end

-- The holders that live, how many they are, which of them ends first, and until when the hash may be needed: nil if
-- that cannot be told. The others are dropped.
local function holders(key)
  local found, count, first, last = {}, 0, nil, 0
  local all = call('HGETALL', base .. 'lock:' .. key)
  for i = 1, #all, 2 do
    local hold = hold_of(all[i + 1])
    if hold.ends > now then
      found[all[i]], count = hold, count + 1
      if not first or hold.ends < first.ends then
        first = hold
      end
      last = last and hold.has_end and math.max(last, hold.ends) or nil
    else
      call('HDEL', base .. 'lock:' .. key, all[i])
    end
  end
  return found, count, first, last
end

local function look_again(key, seconds)
  call('ZADD', LOCKS, stamp(now + seconds), key)
end

local function keep_until(key, last)
  if last then
    call('PEXPIRE', base .. 'lock:' .. key, math.ceil((last - now) * 1000) + 60000)
  else
    call('PERSIST', base .. 'lock:' .. key)
  end
end

local function sweep_locks()
  for _, key in ipairs(call('ZRANGEBYSCORE', LOCKS, '-inf', NOW, 'LIMIT', 0, SWEPT_AT_ONCE)) do
    local _, count = holders(key)
    if count > 0 then
      look_again(key, retry_after)
    else
      call('ZREM', LOCKS, key)
    end
  end
end
