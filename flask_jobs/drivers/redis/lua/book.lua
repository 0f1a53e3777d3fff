-- uses: common booked turns
-- Charges all quotas now if all allow it, else books the earliest turn that all allow. Gives 1 and the slices that
-- were charged, or 0, the instant of the turn, how far away it is, and which quota makes the job wait.
local SWEPT_AT_ONCE, SLACK = 20, 3600000
local owner, name, ahead = take(), take(), take() ~= ''
local quotas = {}
for i = 1, tonumber(take()) do
  quotas[i] = {key = take(), amount = tonumber(take()), length = tonumber(take()), span = tonumber(take())}
end

local function expire(key, at)
  local left = math.ceil((at - now) * 1000) + SLACK
  if call('PTTL', key) < left then
    call('PEXPIRE', key, string.format('%.0f', left))
  end
end

local function sweep()
  local over = call('ZRANGEBYSCORE', BOOKED_UNTIL, '-inf', NOW, 'LIMIT', 0, SWEPT_AT_ONCE)
  if #over > 0 then
    call('HDEL', BOOKINGS, unpack(over))
    call('ZREM', BOOKED_UNTIL, unpack(over))
  end
end

local function turn(at, blocker)
  return {0, stamp(at), stamp(at - now), blocker - 1}
end

local function remove_old(slices, quota)
  local before = whole(slice_at(quota, now) - quota.span)
  local old = call('ZRANGEBYSCORE', slices, '-inf', before, 'LIMIT', 0, SEEN_AT_ONCE)
  if #old > 0 then
    call('ZREM', slices, unpack(old))
  end
end

local function charge(quota, number)
  local slices, taken = base .. 'slices:' .. quota.key, 0
  local member = call('ZRANGEBYSCORE', slices, whole(number), whole(number))[1]
  if member then
    taken = tonumber(string.match(member, ':(%d+)$'))
    call('ZREM', slices, member)
  else
    remove_old(slices, quota)
  end
  call('ZADD', slices, whole(number), string.format('%s:%d', whole(number), taken + 1))
end

local function keep(line)
  local quota, key = line.quota, base .. 'limit:' .. line.quota.key
  call('HSET', key, 'amount', whole(quota.amount), 'frontier', whole(line.frontier), 'last', whole(line.last))
  local ends = (line.last + quota.span) * quota.length
  expire(key, ends)
  expire(base .. 'slices:' .. quota.key, ends)
end

local function note(lines, numbers)
  local text, latest = call('HGET', BOOKINGS, owner) or '', 0
  for i, line in ipairs(lines) do
    local quota, number = line.quota, numbers[i]
    local till = (number + 1) * quota.length
    latest = math.max(latest, till)
    local entry = {name, quota.key, whole(number), whole(number - quota.span + 1), stamp(till)}
    text = text .. (text == '' and '' or LINE) .. table.concat(entry, SEP)
  end
  call('HSET', BOOKINGS, owner, text)
  latest = math.max(latest, tonumber(call('ZSCORE', BOOKED_UNTIL, owner) or '') or 0)
  call('ZADD', BOOKED_UNTIL, stamp(latest), owner)
  expire(BOOKINGS, latest)
  expire(BOOKED_UNTIL, latest)
end

-- What the owner has booked of these very quotas, as slices; nil if it is something else.
local function booked(own)
  local by_key, numbers = {}, {}
  for _, one in ipairs(own) do
    by_key[one.key] = tonumber(one.number)
  end
  for i, quota in ipairs(quotas) do
    numbers[i] = by_key[quota.key]
    if not numbers[i] then
      return nil
    end
  end
  return #own == #quotas and numbers or nil
end

local function when(numbers)
  local is_now, at, blocker = true, 0, 1
  for i, quota in ipairs(quotas) do
    is_now = is_now and slice_at(quota, now) == numbers[i]
    if numbers[i] * quota.length > at then
      at, blocker = numbers[i] * quota.length, i
    end
  end
  return is_now, at, blocker
end

local function granted(numbers)
  local answer = {1}
  for i, number in ipairs(numbers) do
    answer[i + 1] = whole(number)
  end
  return answer
end

local function anew()
  local lines, numbers = {}, {}
  for i, quota in ipairs(quotas) do
    lines[i] = new_line(quota)
  end
  local at, blocker = earliest(lines)
  if ahead or not blocker then
    for i, line in ipairs(lines) do
      numbers[i] = slice_at(line.quota, at)
      line.last = math.max(line.last, numbers[i])
      charge(line.quota, numbers[i])
    end
  end
  for _, line in ipairs(lines) do
    keep(line)
  end
  if not blocker then
    return granted(numbers)
  end
  if ahead then
    note(lines, numbers)
  end
  return turn(at, blocker)
end

sweep()
local before = call('HGET', BOOKINGS, owner)
local since = call('ZSCORE', BOOKED_UNTIL, owner)
local own = before and free(owner, name) or {}
local numbers = #own > 0 and booked(own)
if numbers then
  local is_now, at, blocker = when(numbers)
  if is_now then
    return granted(numbers)
  end
  if now < at then
    call('HSET', BOOKINGS, owner, before)
    call('ZADD', BOOKED_UNTIL, since, owner)
    return turn(at, blocker)
  end
end
for _, one in ipairs(own) do
  put_back(one.key, one.number, one.reopens)
end
return anew()
