if vim.g.loaded_skyline then return end
vim.g.loaded_skyline = true

vim.api.nvim_create_user_command("Skyline", function(given) require("skyline").run(given.fargs) end, {
  nargs = "*",
  desc = "Skyline: the bars, or profile, cancel, apply, revert, verify, report",
  complete = function(lead, line) return require("skyline").complete(lead, line) end,
})
