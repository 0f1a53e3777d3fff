-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing following return_ties) ties
-- Lets a batch go on that is held open for members which do not come any more; gives whether it was.
local batch = ties().batch(take())
if not batch or ties().close(batch, now) == 0 then
  return 0
end
ties().call_back(batch, 'default')
ties().finish()
return 1
