-- uses: common jobs memory waking failing settling
return settle()
