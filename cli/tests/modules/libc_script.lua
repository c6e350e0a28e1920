-- What cli/tests/modules/libc.rs has Lua run, as a module and on the host: it prints the same.
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
print(_VERSION, fib(20), math.maxinteger, 7 // 2, -7 % 3, 2 ^ 0.5, 1e100)

-- Errors, through Lua and C, in coroutines, and of errors.
print(pcall(error, "thrown"))
print(pcall(function() local nothing; return nothing.field end))
print(pcall(string.rep))
print(select("#", pcall(table.sort, { 3, 1, 2 }, function() error({}) end)))
print(xpcall(function() error("inner") end, function(m) return "handled " .. m end))
local co = coroutine.wrap(function(a)
  for _ = 1, 3 do a = coroutine.yield(a * 2) end
  error("of a coroutine")
end)
print(co(1), co(2), co(3), pcall(co, 4))
print(pcall(function()
  for i = 1, 100 do
    assert(not pcall(function() assert(not pcall(error)); error(i) end))
  end
  return "many"
end))
local function deep(n) return n == 0 and error("deep") or 1 + deep(n - 1) end
print(pcall(deep, 150))

-- Memory, text and tables.
local parts = {}
for i = 1, 20000 do parts[i] = string.format("%d:%s", i * 7919 % 1000, ("x"):rep(i % 50)) end
table.sort(parts)
local all = table.concat(parts, ",")
print(#all, parts[1], parts[#parts], select(2, all:gsub("x+", "")))
collectgarbage()
print(("%5.2f|%q|%x|%g"):format(3.14159, "a\nb", 255, 0.1), ("abc"):byte(1, -1))
print(string.pack("<i4", 100):byte(1, -1))
for word in ("the quick fox"):gmatch("%a+") do io.write(word:upper(), " ") end
print(load("return 1 +")) print(load("return 6 * 7")())
print(os.time({ year = 2020, month = 1, day = 1, hour = 12 }) > 0, #arg)
for line in io.lines("script.lua") do print(#line) break end
