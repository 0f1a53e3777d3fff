-- uses: common jobs failing
-- One portion of the failed jobs between two positions: where the next portion begins (empty when there is none),
-- then id and, if wanted, record of each that fits.
local SEEN_AT_ONCE = 1000
local queue, name, until_age, low, high = take(), take(), tonumber(take()), take(), take()
local descending, limit, with_records = take() ~= '', tonumber(take()), take() ~= ''
local index, by_queue = failed_index(queue, name), failed_index(queue, '')

local function fits(id)
  if name ~= '' and queue ~= '' and not call('ZSCORE', by_queue, id) then
    return false
  end
  return not until_age or tonumber(call('ZSCORE', AGES, id) or '') <= until_age
end

local order = descending and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
local from, to = low, high
if descending then
  from, to = high, low
end
local seen = call(order, index, from, to, 'WITHSCORES', 'LIMIT', 0, math.min(SEEN_AT_ONCE, 2 * limit))
local found, last = {}, ''
for i = 1, #seen, 2 do
  if #found >= limit then
    break
  end
  last = seen[i + 1]
  if fits(seen[i]) then
    found[#found + 1] = with_records and {seen[i], call('HGET', FAILED, seen[i])} or {seen[i]}
  end
end
return {last, found}
