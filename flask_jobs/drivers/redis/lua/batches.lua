-- uses: common
-- What is stored of these batches, but for their callbacks; nothing for one that is gone.
local found = {}
for i = 1, tonumber(take()) do
  local state = redis.pcall('HMGET', base .. 'batch:' .. ARGV[position + i], 'name', 'total', 'pending', 'done', 'failed',
    'skipped', 'allow', 'created', 'cancelled', 'finished', 'callbacks', 'open')
  found[i] = state.err and {} or state
end
return found
