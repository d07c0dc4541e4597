-- A task in two commands, and writes what the window over the text says to $REPORT as JSON.
local seen = {}

local function wait(what, seconds, condition)
  if not vim.wait(seconds * 1000, condition, 50) then error("waited in vain for " .. what) end
end

local function float()
  for _, one in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(one).relative ~= "" then
      return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(one), 0, -1, true), "\n")
    end
  end
  return ""
end

local function session()
  wait("the server", 30, function()
    local client = vim.lsp.get_clients({ bufnr = 0, name = "skyline" })[1]
    return client and client.initialized
  end)
  vim.cmd("Skyline profile")
  vim.cmd("Skyline")
  wait("the answer", 200, function() return float():find("of the step", 1, true) end)
  seen.answer = float()
end

local ok, reason = xpcall(session, debug.traceback)
seen.failed = not ok and reason or nil
vim.fn.writefile({ vim.json.encode(seen) }, vim.env.REPORT)
vim.cmd("qall!")
