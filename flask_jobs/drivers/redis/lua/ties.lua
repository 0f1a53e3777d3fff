-- What the end of jobs with ties is told to, opened with the first of them.
local opened

local function ties()
  opened = opened or open_ties()
  return opened
end
