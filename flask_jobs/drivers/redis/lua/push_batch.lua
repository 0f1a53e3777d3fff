-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing portion following add_portion return_ties) ties members
-- Stores a batch with a portion of its members. Once it is whole, nothing more of it is stored.
local id, name, allow = take(), take(), take()
local callbacks = {['then'] = take(), catch = take(), finally = take()}
local batch = ties().batch(id)
if batch and batch.open == 0 then
  return refused_members()
end
local is_new = not batch
batch = batch or ties().new_batch(id, allow)
local answers = add_members(batch, '')
if is_new then
  call('HSET', batch.key, 'name', name, 'created', NOW)
  for role, planned in pairs(callbacks) do
    if planned ~= '' then
      call('HSET', batch.key, role, planned)
    end
  end
  call('ZADD', base .. 'batches', 0, id)
end
ties().call_back(batch, 'default')
ties().finish()
return answers
