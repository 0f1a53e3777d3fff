-- Members of a batch, which come in portions. From the first portion until the last one the batch is held open, by a
-- mark that says until when: without end for the push of the batch itself.
local function refused_members()
  take()
  take()
  local answers = {}
  for i = 1, tonumber(take()) do
    answers[i] = 0
  end
  return answers
end

local function hold_open(batch, opener, till, is_last)
  local mark = OPENED_BY .. opener
  if is_last then
    batch.open = batch.open - call('HDEL', batch.key, mark)
  else
    batch.open = batch.open + call('HSET', batch.key, mark, till)
  end
end

-- One whose unique key is held is skipped, and its id used up, so that it is counted once.
local function add_members(batch, till)
  local opener, is_last = take(), take() ~= ''
  local ids, answers = ties().put_all()
  for i, answer in ipairs(answers) do
    if answer == 1 then
      batch.pending, batch.total = batch.pending + 1, batch.total + 1
    elseif answer ~= 0 then
      batch.skipped, batch.total = batch.skipped + 1, batch.total + 1
      remember({ids[i]}, mark_of('skip', ''))
    end
  end
  hold_open(batch, opener, till, is_last)
  return answers
end
