-- uses: common jobs places memory waking open_ties(failing booked open_keys(keys) storing following putting_back return_ties) ties settling
return settle()
