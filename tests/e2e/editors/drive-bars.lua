-- Uses the plug-in as a person would, over a saved profile, and writes what was to be seen to $REPORT as JSON.
local seen = {}

local function wait(what, seconds, condition)
  local found
  local ok = vim.wait(seconds * 1000, function() found = condition() return found end, 20)
  if not ok then error("waited in vain for " .. what) end
  return found
end

local source = vim.api.nvim_get_current_buf()

local function text() return table.concat(vim.api.nvim_buf_get_lines(source, 0, -1, true), "\n") .. "\n" end

local function window()
  for _, one in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(one).relative ~= "" then return one end
  end
end

local function float()
  local one = window()
  return one and vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(one), 0, -1, true) or {}
end

local function line_with(part)
  for number, line in ipairs(float()) do
    if line:find(part, 1, true) then return line, number end
  end
end

local function press(keys)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), "xt", false)
end

local function session()
  wait("the server", 30, function()
    local client = vim.lsp.get_clients({ bufnr = 0, name = "skyline" })[1]
    return client and client.initialized
  end)
  local before = text()
  seen.commands = require("skyline").complete("", "Skyline ")
  vim.cmd("Skyline")
  wait("the bars", 30, function() return line_with("throughput") and line_with("per iteration") end)
  seen.opened = float()
  seen.changes = require("skyline").complete("num", "Skyline apply num")
  press("l")
  wait("another size", 10, function()
    local size = line_with("->")
    return size and line_with("1.00x speed") == nil and line_with("…") == nil
  end)
  seen.moved = float()
  -- The first what-if, and Enter.
  local _, first = line_with("[ ]")
  vim.api.nvim_win_set_cursor(window(), { first, 0 })
  press("<Space>")
  wait("a checked what-if", 10, function() return line_with("[x]") end)
  seen.checked = float()
  press("<Space>")
  wait("an unchecked what-if", 10, function() return not line_with("[x]") end)
  press("<CR>")
  wait("the change", 20, function() return text() ~= before end)
  seen.changed = text()
  press("u")
  wait("the code as before", 20, function() return text() == before end)
  press("q")
  seen.closed = window() == nil
  vim.cmd("Skyline apply batch_size=24")
  wait("the change by its name", 20, function() return text() ~= before end)
  seen.by_name = text()
  vim.cmd("Skyline revert")
  wait("the code as before", 20, function() return text() == before end)
  vim.cmd("Skyline nothing")
  seen.told = vim.fn.execute("messages")
end

local ok, reason = xpcall(session, debug.traceback)
seen.failed = not ok and reason or nil
vim.fn.writefile({ vim.json.encode(seen) }, vim.env.REPORT)
vim.cmd("qall!")
