-- uses: common
local key = base .. 'tally:' .. take()
local ends = tonumber(call('HGET', key, 'until') or '0')
call('DEL', key)
return ends > now and 1 or 0
