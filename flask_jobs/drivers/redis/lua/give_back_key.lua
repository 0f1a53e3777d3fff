-- uses: common jobs open_keys(keys)
-- Gives back the key of a job that runs; 0 if the delivery is over.
local queue, member, id = take(), take(), take()
if not call('ZSCORE', base .. 'reserved:' .. queue, member) then
  return 0
end
local _, tied = string.match(call('HGET', JOBS, id) or '', TIED)
local digest = tied and string.match(tied, KNOT)
if digest and digest ~= '' then
  open_keys().give_back(digest, id)
end
return 1
