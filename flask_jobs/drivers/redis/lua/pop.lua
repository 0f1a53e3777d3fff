-- uses: common jobs places memory waking open_ties(failing open_keys(keys) storing following return_ties) ties popping
return pop()
