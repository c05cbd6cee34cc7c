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

-- How many coroutines have resumed one another: each takes a part of the C stack, which Lua 5.1 does
-- not bound. Whoever catches an error is as deep as before.
local depth, DEPTH_MAX = 0, 190

local function returned(before, ...)
  depth = before
  return ...
end

function visible.pcall(...)
  return caught_text(returned(depth, raw_pcall(...)))
end

-- In a handler nothing may be raised, so whether the script has been ended is asked afterwards.
local function outlived(ok, ...)
  if not ok then check() end
  return ok, ...
end

function visible.xpcall(f, handler)
  return outlived(returned(depth, raw_xpcall(f, function(err) return handler(final(err)) end)))
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

local function resume(...)
  if depth >= DEPTH_MAX then return false, 'C stack overflow' end
  depth = depth + 1
  return returned(depth - 1, raw_resume(...))
end

function threads.resume(...)
  return caught(resume(...))
end

-- An error is told where the coroutine was called, two levels up: a tail call counts as one.
local function passed_on(ok, ...)
  if ok then return ... end
  local err = ...
  if type(err) == 'string' or type(err) == 'number' then error(err, 3) end
  error(err, 0)
end

function threads.wrap(f)
  local thread = coroutine.create(f)
  return function(...)
    return passed_on(resume(thread, ...))
  end
end

-- Compiled chunks are not checked, and could make Lua do anything: they are read as text, as Redis does.
local raw_loadstring = loadstring
function visible.loadstring(...)
  local text, name = ...
  if type(text) ~= 'string' or text:byte() ~= 27 then return raw_loadstring(...) end
  name = type(name) == 'string' and name or text
  local shown = name:match('^[=@](.*)') or '[string "' .. name:match('^%Z*') .. '"]'
  return nil, shown .. ":1: unexpected symbol near 'char(27)'"
end

-- The pieces are put together first, for any of them may be the one that begins a chunk.
function visible.load(reader, name)
  local pieces = {}
  repeat
    local ok, piece = caught(raw_pcall(reader))
    if not ok then return nil, piece end
    if piece ~= nil and type(piece) ~= 'string' then
      return nil, 'reader function must return a string'
    end
    pieces[#pieces + 1] = piece
  until piece == nil or piece == ''
  return visible.loadstring(table.concat(pieces), type(name) == 'string' and name or '=(load)')
end

-- How Lua collects is not a script's to say: it would go on for all others.
local raw_collectgarbage = collectgarbage
local STEERING = { stop = 0, restart = 0, setpause = 200, setstepmul = 200 }
function visible.collectgarbage(option, ...)
  if STEERING[option] then return STEERING[option] end
  return raw_collectgarbage(option, ...)
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
  if sealed[err] then
    err = { err = 'ERR err_handler_def:10: ' .. READONLY }
  elseif type(err) ~= 'table' then
    err = { err = 'ERR ' .. tostring(err) }
  end
  raw_rawset(err, 'line', where())
  return err
end

local set = raw_rawset

local function run_no_key(f, ...)
  set(visible, 'KEYS', {})
  set(visible, 'ARGV', { ... })
  depth = 0
  return raw_xpcall(f, uncaught)
end

local function run_one_key(f, key, ...)
  set(visible, 'KEYS', { key })
  set(visible, 'ARGV', { ... })
  depth = 0
  return raw_xpcall(f, uncaught)
end

local function run_keys(f, keys, args)
  set(visible, 'KEYS', keys)
  set(visible, 'ARGV', args)
  depth = 0
  return raw_xpcall(f, uncaught)
end

return globals, run_no_key, run_one_key, run_keys
