-- The language server. Neovim 0.11 and newer reads this file once `vim.lsp.enable("skyline")` is called.
local function ignore() end

return {
  cmd = { "skyline", "lsp" },
  filetypes = { "python" },
  root_markers = { "pyproject.toml", ".git" },
  handlers = {
    ["skyline/profileChanged"] = function(_, params) require("skyline").profile_changed(params.uri) end,
    ["skyline/codeChanged"] = ignore,
    ["skyline/measuring"] = ignore,
    ["skyline/tuning"] = ignore,
  },
}
