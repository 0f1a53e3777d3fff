-- uses: common jobs memory waking failing booked settling popping
local late = settle()
return {late, pop()}
