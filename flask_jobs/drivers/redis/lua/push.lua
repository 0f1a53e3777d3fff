-- uses: common memory waking keys storing
-- Stores a portion.
local store, answers = open_store(), {}
for i = 1, tonumber(take()) do
  answers[i] = store.put(take(), take(), take(), take(), take(), take(), take())
end
store.deliver()
return answers
