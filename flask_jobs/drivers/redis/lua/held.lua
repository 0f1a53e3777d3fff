-- uses: common jobs
-- What is stored of the jobs of these deliveries: name and value of each that is still under way and not damaged.
local answer = {NOW}
for _ = 1, tonumber(take()) do
  local queue, member = take(), take()
  if call('ZSCORE', base .. 'reserved:' .. queue, member) then
    local value = call('HGET', JOBS, sub(member, string.find(member, SEP, 1, true) + 1))
    if is_sound(value, queue) then
      answer[#answer + 1], answer[#answer + 2] = member, value
    end
  end
end
return answer
