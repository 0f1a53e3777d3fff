-- uses: common jobs memory waking failing keys storing following settling
return settle()
