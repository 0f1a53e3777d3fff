-- uses: common locking
-- Takes a place of a key: empty if it is held now, else the job whose hold ends first, and when.
local key, holder, job, queue, member = take(), take(), take(), take(), take()
local places, seconds = tonumber(take()), tonumber(take())
sweep_locks()
local found, count, first = holders(key)
if found[holder] then
  return {}
end
if count >= places then
  return {first.job, stamp(first.ends)}
end
call('HSET', base .. 'lock:' .. key, holder, table.concat({job, queue, member, stamp(now + seconds)}, SEP))
look_again(key, member == '' and seconds or retry_after)
local _, _, _, last = holders(key)
keep_until(key, last)
return {}
