-- Numbers in words, and the batch sizes that a bar stops at.
local M = {}

local function rounded(value)
  if value >= 99.95 then return ("%.0f"):format(value) end
  return (value >= 9.995 and "%.1f" or "%.2f"):format(value)
end

--- `12.3 ms` or `450 µs`.
function M.time(ms)
  local size = math.abs(ms)
  local sign = ms < 0 and "-" or ""
  if size >= 1000 then return sign .. rounded(size / 1000) .. " s" end
  if size >= 1 then return sign .. rounded(size) .. " ms" end
  return sign .. rounded(size * 1000) .. " µs"
end

--- The same with a sign in front of a longer time, too.
function M.change(ms) return (ms > 0 and "+" or "") .. M.time(ms) end

--- `1.9 GB`, in powers of ten.
function M.bytes(bytes)
  for _, unit in ipairs({ { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" } }) do
    if bytes >= unit[1] then return ("%.1f %s"):format(bytes / unit[1], unit[2]) end
  end
  return ("%d B"):format(bytes)
end

--- `175 samples/s`.
function M.rate(per_second) return rounded(per_second) .. " samples/s" end

--- Ratio of the ends of a range with no change in it from which on it tells nothing.
local WIDE = 4

--- `1.30x (1.21–1.40x)`; `not known (0.28–3.56x)` for a range from half to twice the speed and more.
function M.speed(estimate)
  local range = estimate.speedup_range
  if type(range) ~= "table" then return ("%.2fx"):format(estimate.speedup) end
  local ends = ("(%.2f–%.2fx)"):format(range.low, range.high)
  if range.low < 1 and range.high > 1 and range.high >= WIDE * range.low then return "not known " .. ends end
  return ("%.2fx %s"):format(range.value, ends)
end

--- "better" or "worse" if the whole range is, else nil.
function M.direction(estimate)
  local range = estimate.speedup_range
  if type(range) ~= "table" then return nil end
  return range.low > 1 and "better" or range.high < 1 and "worse" or nil
end

--- The sizes from `smallest` to `largest` that people use: 1 to 8, then four in each doubling; with both ends and `own`.
function M.usual_sizes(smallest, largest, own)
  local found, seen = {}, {}
  local function add(size)
    if size >= smallest and size <= largest and not seen[size] then
      seen[size] = true
      table.insert(found, size)
    end
  end
  for size = 1, 7 do
    add(size)
  end
  local step = 2
  while 4 * step <= largest do
    for quarter = 4, 7 do
      add(quarter * step)
    end
    step = 2 * step
  end
  add(smallest)
  add(largest)
  add(own)
  table.sort(found)
  return found
end

--- A bar of `width` cells for a value between two ends.
function M.bar(value, low, high, width)
  local share = high > low and (value - low) / (high - low) or 1
  local full = math.floor(math.max(0, math.min(1, share)) * width + 0.5)
  return ("█"):rep(full) .. ("░"):rep(width - full)
end

return M
