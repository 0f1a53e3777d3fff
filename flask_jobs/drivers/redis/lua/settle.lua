-- uses: common jobs memory waking failing booked settling
return settle()
