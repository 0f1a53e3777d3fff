-- uses: common jobs memory waking failing keys storing following popping
return pop()
