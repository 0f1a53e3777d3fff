-- uses: common jobs memory waking failing popping
return pop()
