-- uses: common places waking open_keys(keys) storing portion
-- Stores a portion.
local _, answers = put_all()
deliver()
return answers
