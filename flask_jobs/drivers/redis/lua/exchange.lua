-- uses: common jobs memory waking failing settling popping
local late = settle()
return {late, pop()}
