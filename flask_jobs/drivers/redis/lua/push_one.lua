-- uses: common places waking open_keys(keys) storing
-- Stores a job that comes alone, as most do, with nothing prepared for others.
local answer = put(take(), take(), take(), take(), take(), take(), take())
deliver()
return answer
