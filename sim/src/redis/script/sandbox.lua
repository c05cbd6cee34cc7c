-- What a script sees. Built once; every script runs in it and can change nothing of it.
-- Given: the functions of Rust. Returned: the ways to run a compiled script.
local host = ...

local raw_pcall, raw_xpcall, raw_rawset, raw_setmetatable = pcall, xpcall, rawset, setmetatable
local raw_resume, type, tostring, error, select = coroutine.resume, type, tostring, error, select
local convert, final, check, where = host.convert, host.final, host.check, host.where

local READONLY = 'Attempt to modify a readonly table'
local sealed = raw_setmetatable({}, { __mode = 'k' })

local function refuse_write()
  error(READONLY, 2)
end

local function seal(contents)
  local proxy = raw_setmetatable({}, {
    __index = contents, __newindex = refuse_write, __metatable = false,
  })
  sealed[proxy] = true
  return proxy
end

-- Errors of Rust arrive as userdata; scripts expect the tables of Redis.
local function caught(ok, ...)
  if ok then return true, ... end
  return false, convert((...))
end

local visible = {}
for _, name in ipairs { 'assert', 'collectgarbage', 'error', 'gcinfo', 'getmetatable', 'ipairs',
  'load', 'loadstring', 'next', 'pairs', 'rawequal', 'rawget', 'select', 'tonumber', 'tostring',
  'type', 'unpack', '_VERSION' } do
  visible[name] = _G[name]
end

-- As in Redis 7, pcall gives the text of an error table rather than the table.
local function caught_text(ok, ...)
  if ok then return true, ... end
  local err = convert((...))
  if type(err) == 'table' and type(err.err) == 'string' then
    err = err.err
  end
  return false, err
end

function visible.pcall(...)
  return caught_text(raw_pcall(...))
end

-- In a handler nothing may be raised, so whether the script has been ended is asked afterwards.
local function outlived(ok, ...)
  if not ok then check() end
  return ok, ...
end

function visible.xpcall(f, handler)
  return outlived(raw_xpcall(f, function(err) return handler(final(err)) end))
end

function visible.rawset(t, ...)
  if sealed[t] then error(READONLY, 0) end
  return raw_rawset(t, ...)
end

function visible.setmetatable(t, ...)
  if sealed[t] then error(READONLY, 0) end
  return raw_setmetatable(t, ...)
end

local threads = {}
for name, member in pairs(coroutine) do threads[name] = member end
function threads.resume(...)
  return caught(raw_resume(...))
end

local numbers = {}
for name, member in pairs(math) do numbers[name] = member end
numbers.random, numbers.randomseed = host.random, host.randomseed

getmetatable('').__metatable = false

visible.coroutine = seal(threads)
visible.math = seal(numbers)
visible.string = seal(string)
visible.table = seal(table)
visible.bit = seal(host.bit)
visible.cjson = seal(host.cjson)
visible.cmsgpack = seal(host.cmsgpack)
visible.struct = seal(host.struct)
visible.redis = seal(host.redis)

raw_setmetatable(visible, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local globals = seal(visible)
visible._G = globals

-- Called where an uncaught error was raised, with the stack still standing.
local function uncaught(err)
  err = final(err)
  if type(err) ~= 'table' then
    err = { err = 'ERR ' .. tostring(err) }
  end
  raw_rawset(err, 'line', where())
  return err
end

local set = raw_rawset

local function run_no_key(f, ...)
  set(visible, 'KEYS', {})
  set(visible, 'ARGV', { ... })
  return raw_xpcall(f, uncaught)
end

local function run_one_key(f, key, ...)
  set(visible, 'KEYS', { key })
  set(visible, 'ARGV', { ... })
  return raw_xpcall(f, uncaught)
end

local function run_keys(f, keys, ...)
  set(visible, 'KEYS', keys)
  set(visible, 'ARGV', { ... })
  return raw_xpcall(f, uncaught)
end

return globals, run_no_key, run_one_key, run_keys
