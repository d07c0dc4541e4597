-- Setup of the language server, and the commands behind :Skyline.
local M = {}

local function warn(text) vim.notify("Skyline: " .. text, vim.log.levels.WARN) end

--- The server of a buffer. Without one a message names the next step.
function M.client(buffer)
  local found = vim.lsp.get_clients({ bufnr = buffer, name = "skyline" })[1]
  if not found then warn("no server for this buffer; open a Python file, and see :checkhealth vim.lsp") end
  return found
end

--- Send a request about a buffer. `done` gets the result; an error becomes a message.
function M.ask(buffer, method, params, done)
  local client = M.client(buffer)
  if not client then return end
  client:request(method, params, function(failure, result)
    if failure then
      warn(failure.message or tostring(failure))
    elseif done then
      done(result)
    end
  end, buffer)
end

local function execute(buffer, command, options, done)
  M.ask(buffer, "workspace/executeCommand", {
    command = command,
    arguments = { vim.uri_from_bufnr(buffer), options or vim.empty_dict() },
  }, done)
end

--- `batch_size=64 amp=bf16` as the server takes it.
function M.question(buffer, words)
  local question = { uri = vim.uri_from_bufnr(buffer), batchSize = vim.NIL, whatifs = {} }
  for _, word in ipairs(words) do
    local size = word:match("^batch_size=(%d+)$")
    if size then
      question.batchSize = tonumber(size)
    else
      table.insert(question.whatifs, word)
    end
  end
  return question
end

--- Write the changes of a question into the buffer; `done` is called once they are there.
function M.apply(buffer, question, done)
  M.ask(buffer, "skyline/apply", question, function(result)
    for _, one in ipairs(result.refused or {}) do
      warn(one.name .. " is not written: " .. one.reason)
    end
    if result.applied then
      if done then done() end
    elseif type(result.reason) == "string" then
      warn(result.reason)
    end
  end)
end

--- Take the latest change back.
function M.revert(buffer, done)
  M.ask(buffer, "skyline/revert", { uri = vim.uri_from_bufnr(buffer) }, function(result)
    if result.applied then
      if done then done() end
    elseif type(result.reason) == "string" then
      warn(result.reason)
    end
  end)
end

local commands = {
  bars = function(buffer) require("skyline.bars").open(buffer) end,
  profile = function(buffer, words)
    execute(buffer, "skyline.profile", #words > 0 and { args = words } or nil)
  end,
  cancel = function(buffer) execute(buffer, "skyline.cancel") end,
  report = function(buffer) execute(buffer, "skyline.showReport") end,
  revert = function(buffer) M.revert(buffer) end,
  apply = function(buffer, words)
    if #words == 0 then return warn("name a change, for example :Skyline apply batch_size=64") end
    M.apply(buffer, M.question(buffer, words))
  end,
  verify = function(buffer, words)
    if #words == 0 then return warn("name a change, for example :Skyline verify num_workers=2") end
    local question = M.question(buffer, words)
    execute(buffer, "skyline.verify", { batchSize = question.batchSize, whatifs = question.whatifs })
  end,
}

--- The buffer that a command is meant for: in the bars, the script below them.
local function current() return require("skyline.bars").script_of(vim.api.nvim_get_current_buf()) end

--- Run a command by its words. Without a word the bars open.
function M.run(words) M.run_in(current(), words) end

--- The same for another buffer than the current one.
function M.run_in(buffer, words)
  local command = commands[words[1] or "bars"]
  if command then
    command(buffer, vim.list_slice(words, 2))
  else
    warn(words[1] .. " is not a command. Available: " .. table.concat(vim.fn.sort(vim.tbl_keys(commands)), ", "))
  end
end

local function names_of_changes(buffer)
  local client = vim.lsp.get_clients({ bufnr = buffer, name = "skyline" })[1]
  local answer = client and client:request_sync("skyline/whatifs", { uri = vim.uri_from_bufnr(buffer) }, 2000, buffer)
  local names = { "batch_size=" }
  for _, one in ipairs(answer and answer.result and answer.result.estimates or {}) do
    table.insert(names, one.name)
  end
  return names
end

--- The words that may follow in the command line.
function M.complete(lead, line)
  local words = vim.split(vim.trim(line), "%s+")
  local command = words[2]
  local offered = {}
  if command == nil or (#words == 2 and lead ~= "") then
    offered = vim.fn.sort(vim.tbl_keys(commands))
  elseif command == "apply" or command == "verify" then
    offered = names_of_changes(current())
  end
  return vim.tbl_filter(function(word) return vim.startswith(word, lead) end, offered)
end

local lensed = {}

--- A newer profile of a script: its lenses and its bars show it.
function M.profile_changed(uri)
  local buffer = vim.uri_to_bufnr(uri)
  if lensed[buffer] and vim.api.nvim_buf_is_loaded(buffer) then vim.lsp.codelens.refresh({ bufnr = buffer }) end
  require("skyline.bars").profile_changed(uri)
end

local function show_lenses(buffer, group)
  lensed[buffer] = true
  local function refresh() vim.lsp.codelens.refresh({ bufnr = buffer }) end
  vim.api.nvim_create_autocmd({ "BufEnter", "InsertLeave", "CursorHold" }, { group = group, buffer = buffer, callback = refresh })
  refresh()
end

--- Start the server for Python files. Options: `settings` of the server, `cmd`, and `hints` and `lenses`, which false
--- switches off.
function M.setup(options)
  options = options or {}
  vim.lsp.config("skyline", { cmd = options.cmd, settings = { skyline = options.settings or vim.empty_dict() } })
  local group = vim.api.nvim_create_augroup("skyline", {})
  vim.api.nvim_create_autocmd("LspAttach", {
    group = group,
    callback = function(event)
      local client = vim.lsp.get_client_by_id(event.data.client_id)
      if not client or client.name ~= "skyline" then return end
      if options.hints ~= false then vim.lsp.inlay_hint.enable(true, { bufnr = event.buf }) end
      if options.lenses ~= false then show_lenses(event.buf, group) end
    end,
  })
  vim.lsp.enable("skyline")
end

return M
