-- The numbers of the plug-in, without an editor's windows.
local figures = require("skyline.figures")
local found = {
  times = { figures.time(0.45), figures.time(12.34), figures.time(182.4), figures.time(2500) },
  changes = { figures.change(3), figures.change(-0.2) },
  bytes = { figures.bytes(1.9e9), figures.bytes(2.5e5), figures.bytes(12) },
  sizes = figures.usual_sizes(4, 64, 33),
  bars = { figures.bar(5, 0, 10, 10), figures.bar(20, 0, 10, 4), figures.bar(1, 1, 1, 3) },
  speeds = {
    figures.speed({ speedup = 1.3, speedup_range = { value = 1.3, low = 1.21, high = 1.4 } }),
    figures.speed({ speedup = 0.72, speedup_range = { value = 0.72, low = 0.28, high = 3.56 } }),
    figures.speed({ speedup = 1.5, speedup_range = vim.NIL }),
  },
}
vim.fn.writefile({ vim.json.encode(found) }, vim.env.REPORT)
vim.cmd("qall!")
