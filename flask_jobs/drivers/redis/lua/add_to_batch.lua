-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing portion following add_portion return_ties) ties members
-- Adds a portion of members; nothing if there is no such batch or it has finished.
local batch = ties().batch(take())
if not batch or batch.finished ~= '' then
  return false
end
local answers = add_members(batch, stamp(now + retry_after))
ties().call_back(batch, 'default')
ties().finish()
return answers
