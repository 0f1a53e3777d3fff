-- uses: common jobs memory waking failing keys storing following settling popping
local settled = settle()
return {settled, pop()}
