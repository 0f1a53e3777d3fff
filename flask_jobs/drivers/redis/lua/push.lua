-- uses: common memory waking open_keys(keys) storing
-- Stores a portion.
local answers = {}
for i = 1, tonumber(take()) do
  answers[i] = put(take(), take(), take(), take(), take(), take(), take())
end
deliver()
return answers
