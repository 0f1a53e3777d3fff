-- uses: common
-- Adds to a count that ends some time after its beginning, or only looks at it.
local key, add, seconds = base .. 'tally:' .. take(), tonumber(take()), tonumber(take())
local count, ends = unpack(call('HMGET', key, 'count', 'until'))
count, ends = tonumber(count or '0'), tonumber(ends or '0')
if ends <= now then
  count, ends = 0, now + seconds
end
if add == 0 then
  return count > 0 and {count, stamp(ends), stamp(ends - now)} or {0, NOW, '0'}
end
call('HSET', key, 'count', count + add, 'until', stamp(ends))
call('PEXPIRE', key, string.format('%.0f', math.ceil((ends - now) * 1000) + 60000))
return {count + add, stamp(ends), stamp(ends - now)}
