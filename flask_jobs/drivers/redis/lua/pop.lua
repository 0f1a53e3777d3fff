-- uses: common jobs waking failing popping
return pop()
