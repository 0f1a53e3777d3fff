-- uses: common booked
-- Lets others have what the owner has booked, and places that it was granted and did not use.
local owner = take()
for _ = 1, tonumber(take()) do
  local key, number, reopens = take(), take(), take()
  put_back(key, number, reopens)
end
return give_back(owner)
