-- uses: common jobs memory waking failing keys storing following booked settling popping
local settled = settle()
return {settled, pop()}
