-- uses: common jobs memory waking open_ties(failing open_keys(keys) storing following booked putting_back return_ties) ties settling popping
local settled = settle()
return {settled, pop()}
