-- Throughput and memory as bars in a window over the code, with the what-ifs as switches.
local figures = require("skyline.figures")

local M = {}

local WIDTH = 78
local BAR = 40
local SPACE = vim.api.nvim_create_namespace("skyline")
local KEYS = "h l batch size, [ ] by one · space tries a what-if · Enter writes · u undoes · p profiles · q closes"

-- The open window: its buffers, the profile, the question, and the answer to it.
local view

local function is_open() return view ~= nil and vim.api.nvim_win_is_valid(view.window) end

local function words_of(estimate) return estimate.value ~= "" and estimate.name .. "=" .. estimate.value or estimate.name end

local function checked_words()
  local words = {}
  for _, estimate in ipairs(view.rows) do
    if view.checked[estimate.name] then table.insert(words, words_of(estimate)) end
  end
  return words
end

local function question()
  local own = view.report.batch_size.value
  return {
    uri = view.uri,
    batchSize = view.size ~= own and view.size or vim.NIL,
    whatifs = checked_words(),
  }
end

local function curve_ends(read)
  local low, high = math.huge, -math.huge
  for _, point in ipairs(view.report.curve or {}) do
    low, high = math.min(low, read(point)), math.max(high, read(point))
  end
  return low, high
end

local function value_of(interval) return type(interval) == "table" and interval.value or nil end

local function bar_line(title, read, format)
  local now = view.answer and read(view.answer)
  if not now then return ("%-11s not known"):format(title) end
  local low, high = curve_ends(read)
  if high < low then return ("%-11s %s"):format(title, format(now)) end
  return ("%-11s %s %s"):format(title, figures.bar(now, low, high, BAR), format(now))
end

local function size_line()
  local own = view.report.batch_size.value
  if type(own) ~= "number" then return "batch size  not known" end
  if view.size == own then return ("batch size  %d, as in the code"):format(own) end
  return ("batch size  %d -> %d"):format(own, view.size)
end

local function summary_line()
  local answer = view.answer
  if not answer then return "…" end
  if not answer.applicable then return "! " .. (answer.reason or "does not apply here") end
  local words = { figures.time(answer.iteration_ms.value) .. " per iteration" }
  table.insert(words, figures.speed(answer) .. " speed")
  if answer.extrapolated then table.insert(words, "extrapolated") end
  return table.concat(words, " · ")
end

local function draw()
  if not is_open() then return end
  local lines, marks = {}, {}
  local function add(line, group)
    table.insert(lines, " " .. line)
    if group then table.insert(marks, { #lines - 1, group }) end
  end
  if not view.report then
    add("No profile yet: p profiles this script.")
    add("")
  else
    local verdict = view.whatifs and view.whatifs.verdict
    if type(verdict) == "table" then
      for _, line in ipairs(vim.split(vim.fn.join({ verdict.bound, verdict.advice }, "\n"), "\n")) do
        for _, part in ipairs(M.wrapped(line, WIDTH - 2)) do
          add(part, "Title")
        end
      end
      add("")
    end
    add(size_line())
    add(bar_line("throughput", function(one) return value_of(one.throughput) end, figures.rate), "Function")
    add(bar_line("memory", function(one) return value_of(one.peak_bytes) end, figures.bytes), "Type")
    local direction = view.answer and figures.direction(view.answer)
    add(summary_line(), direction == "better" and "DiagnosticOk" or direction == "worse" and "DiagnosticError" or nil)
    add("")
    view.first_row = #lines
    for _, estimate in ipairs(view.rows) do
      local sign = view.checked[estimate.name] and "[x]" or "[ ]"
      local line = ("%s %-24s %10s  %s"):format(sign, words_of(estimate), figures.change(estimate.change_ms.value), figures.speed(estimate))
      add(line, figures.direction(estimate) == "better" and "DiagnosticOk" or nil)
    end
    if view.others > 0 then add(("%d more do not apply here, or are in the code"):format(view.others), "Comment") end
    add("")
  end
  for _, part in ipairs(M.wrapped(KEYS, WIDTH - 2)) do
    add(part, "Comment")
  end
  vim.bo[view.buffer].modifiable = true
  vim.api.nvim_buf_set_lines(view.buffer, 0, -1, true, lines)
  vim.bo[view.buffer].modifiable = false
  vim.api.nvim_buf_clear_namespace(view.buffer, SPACE, 0, -1)
  for _, mark in ipairs(marks) do
    vim.api.nvim_buf_set_extmark(view.buffer, SPACE, mark[1], 0, { end_col = #lines[mark[1] + 1], hl_group = mark[2] })
  end
  vim.api.nvim_win_set_height(view.window, math.min(#lines, vim.o.lines - 4))
  if view.first_row and not view.placed and #view.rows > 0 then
    view.placed = true
    vim.api.nvim_win_set_cursor(view.window, { view.first_row + 1, 0 })
  end
end

--- A text in lines of at most `width` cells.
function M.wrapped(text, width)
  local lines, line = {}, ""
  for _, word in ipairs(vim.split(text, "%s+")) do
    if line ~= "" and vim.api.nvim_strwidth(line .. " " .. word) > width then
      table.insert(lines, line)
      line = word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  table.insert(lines, line)
  return lines
end

local function simulate()
  view.asked = view.asked + 1
  local mine, asked = view, view.asked
  draw()
  require("skyline").ask(view.source, "skyline/simulate", question(), function(answer)
    -- A later key has asked again, or the window was closed.
    if view ~= mine or asked ~= view.asked then return end
    view.answer = answer
    draw()
  end)
end

local function take(report, whatifs)
  view.report, view.whatifs, view.rows, view.others = report, whatifs, {}, 0
  for _, estimate in ipairs(whatifs and whatifs.estimates or {}) do
    if estimate.applicable and type(estimate.present) ~= "string" and estimate.name ~= "batch_size" then
      table.insert(view.rows, estimate)
    else
      view.others = view.others + 1
    end
  end
  table.sort(view.rows, function(one, other) return one.speedup > other.speedup end)
  local own = report.batch_size.value
  view.size = type(own) == "number" and own or nil
  local low, high = curve_ends(function(point) return point.batch_size end)
  view.sizes = view.size and high >= low and figures.usual_sizes(low, high, view.size) or {}
  simulate()
end

local function load()
  local mine = view
  require("skyline").ask(view.source, "skyline/profile", { uri = view.uri }, function(report)
    if view ~= mine or not is_open() then return end
    if type(report) ~= "table" then return draw() end
    require("skyline").ask(view.source, "skyline/whatifs", { uri = view.uri }, function(whatifs)
      if view == mine and is_open() then take(report, whatifs) end
    end)
  end)
end

local function move(by)
  local sizes = view.sizes
  if not view.size or #sizes < 2 then return end
  local wanted
  for _, size in ipairs(sizes) do
    if by > 0 and size > view.size then
      wanted = size
      break
    elseif by < 0 and size < view.size then
      wanted = size
    end
  end
  if wanted then
    view.size = wanted
    simulate()
  end
end

local function step(by)
  if view.size and #view.sizes > 1 then
    view.size = math.max(1, view.size + by)
    simulate()
  end
end

local function toggle()
  if not view.first_row then return end
  local estimate = view.rows[vim.api.nvim_win_get_cursor(view.window)[1] - view.first_row]
  if estimate then
    view.checked[estimate.name] = not view.checked[estimate.name] or nil
    simulate()
  end
end

local function write()
  if not view.report then return end
  local asked = question()
  if asked.batchSize == vim.NIL and #asked.whatifs == 0 then return end
  require("skyline").apply(view.source, asked, function() vim.notify("Skyline: written; u undoes it") end)
end

local function close()
  if is_open() then vim.api.nvim_win_close(view.window, true) end
  view = nil
end

--- Open the window over a buffer with a training script.
function M.open(source)
  if not require("skyline").client(source) then return end
  close()
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden, vim.bo[buffer].modifiable = "wipe", false
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = "editor",
    -- At the bottom, so that the loop stays in sight.
    anchor = "SE",
    row = vim.o.lines - 2,
    col = vim.o.columns - 1,
    width = math.min(WIDTH, vim.o.columns - 2),
    height = 6,
    style = "minimal",
    border = "rounded",
    title = " Skyline · " .. vim.fs.basename(vim.api.nvim_buf_get_name(source)) .. " ",
  })
  vim.wo[window].cursorline = true
  view = {
    source = source,
    uri = vim.uri_from_bufnr(source),
    buffer = buffer,
    window = window,
    rows = {},
    sizes = {},
    checked = {},
    others = 0,
    asked = 0,
  }
  for key, action in pairs({
    h = function() move(-1) end,
    l = function() move(1) end,
    ["<Left>"] = function() move(-1) end,
    ["<Right>"] = function() move(1) end,
    ["["] = function() step(-1) end,
    ["]"] = function() step(1) end,
    ["<Space>"] = toggle,
    ["<CR>"] = write,
    u = function() require("skyline").revert(view.source) end,
    p = function() require("skyline").run_in(view.source, { "profile" }) end,
    q = close,
    ["<Esc>"] = close,
  }) do
    vim.keymap.set("n", key, action, { buffer = buffer, nowait = true })
  end
  draw()
  load()
end

--- The script that the bars in a buffer are about; any other buffer itself.
function M.script_of(buffer) return view and view.buffer == buffer and view.source or buffer end

--- A newer profile of a script: the open window shows it.
function M.profile_changed(uri)
  if is_open() and view.uri == uri then load() end
end

return M
