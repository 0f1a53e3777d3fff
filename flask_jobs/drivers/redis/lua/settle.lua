-- uses: common jobs memory waking failing keys storing following booked settling
return settle()
