-- uses: common jobs waking
-- Puts deliveries back at the head of their queue as if they had not been; the last one goes first.
local queue, members, back = take(), {}, {}
for i = 1, tonumber(take()) do
  members[i] = take()
end
for i = #members, 1, -1 do
  if call('ZREM', base .. 'reserved:' .. queue, members[i]) == 1 then
    back[#back + 1] = sub(members[i], string.find(members[i], SEP, 1, true) + 1)
  end
end
if #back > 0 then
  call('LPUSH', base .. 'head:' .. queue, unpack(back))
  forget_progress(back)
  wake(queue, #back)
end
return #back
