-- Does in a running Neovim what a person would, and writes what was to be seen to $REPORT as JSON.
local seen = {}

local function wait(what, seconds, condition)
  local found
  local ok = vim.wait(seconds * 1000, function() found = condition() return found end, 20)
  if not ok then error("waited in vain for " .. what) end
  return found
end

local function lens(part)
  vim.lsp.codelens.refresh({ bufnr = 0 })
  vim.wait(200)
  for _, one in ipairs(vim.lsp.codelens.get(0)) do
    if one.command and one.command.title:find(part, 1, true) then return one end
  end
end

local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), "\n") .. "\n" end

local function line_of(part)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, true)) do
    if line:find(part, 1, true) then return number end
  end
end

local function column_of(part, line)
  return vim.api.nvim_buf_get_lines(0, line - 1, line, true)[1]:find(part, 1, true) - 1
end

-- What the window over the text says at the cursor.
local function hover()
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then vim.api.nvim_win_close(window, true) end
  end
  vim.lsp.buf.hover()
  return wait("a hover", 20, function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= "" then
        return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, true), "\n")
      end
    end
  end)
end

-- The titles of what can be chosen on a line.
local function actions(part)
  local place = { line = line_of(part) - 1, character = 0 }
  local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", {
    textDocument = vim.lsp.util.make_text_document_params(0),
    range = { start = place, ["end"] = place },
    context = { diagnostics = {} },
  }, 20000)
  local titles = {}
  for _, answer in pairs(answers or {}) do
    for _, action in ipairs(answer.result or {}) do titles[#titles + 1] = action.title end
  end
  return titles
end

local function session()
  wait("the server", 30, function()
    local client = vim.lsp.get_clients({ bufnr = 0, name = "skyline" })[1]
    return client and client.initialized
  end)
  local before = text()
  local invitation = wait("an invitation", 20, function() return lens("Profile this training script") end)
  seen.invitation = { line = invitation.range.start.line, title = invitation.command.title }
  vim.api.nvim_win_set_cursor(0, { invitation.range.start.line + 1, 0 })
  -- As the lens does, with a shorter run.
  vim.lsp.get_clients({ bufnr = 0, name = "skyline" })[1]:exec_cmd({
    title = invitation.command.title,
    command = invitation.command.command,
    arguments = { invitation.command.arguments[1], { batchPoints = 2, steps = 4 } },
  }, { bufnr = 0 })
  seen.headline = wait("a headline", 200, function()
    local found = lens("per iteration")
    local going = lens("Profiling,")
    return found and not going and found.command.title
  end)
  -- The first ones can be of a profile that is not over yet.
  local backward = line_of("loss.backward()") - 1
  local hints = wait("a hint at the backward pass", 40, function()
    local found = vim.lsp.inlay_hint.get({ bufnr = 0 })
    for _, one in ipairs(found) do
      if one.inlay_hint.position.line == backward then return found end
    end
  end)
  seen.hints = {}
  for _, one in ipairs(hints) do
    seen.hints[#seen.hints + 1] = { line = one.inlay_hint.position.line, label = vim.inspect(one.inlay_hint.label) }
  end
  local unfused = wait("a finding", 20, function()
    for _, one in ipairs(vim.diagnostic.get(0)) do
      if one.code == "SKY301" then return one end
    end
  end)
  seen.finding = { line = unfused.lnum, source = unfused.source, message = unfused.message }
  vim.api.nvim_win_set_cursor(0, { line_of("loss.backward()"), 10 })
  seen.hover = hover()
  local loader = line_of("batch_size=")
  vim.api.nvim_win_set_cursor(0, { loader, column_of("batch_size=", loader) })
  seen.curve = hover()
  seen.at_loop = actions("for x, y in loader")
  seen.at_size = actions("batch_size=")
  vim.api.nvim_win_set_cursor(0, { unfused.lnum + 1, 0 })
  vim.lsp.buf.code_action({
    apply = true,
    filter = function(action) return action.kind == "quickfix" and action.title:find("fused") ~= nil end,
  })
  wait("the change", 20, function() return text() ~= before end)
  seen.changed = text()
  vim.cmd("undo")
  seen.undone = text() == before
end

local ok, reason = xpcall(session, debug.traceback)
seen.failed = not ok and reason or nil
vim.fn.writefile({ vim.json.encode(seen) }, vim.env.REPORT)
vim.cmd("qall!")
