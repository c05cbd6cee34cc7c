-- What a script sees. Built once; every script runs in it and can change nothing of it.
-- Given: the functions of Rust. Returned: the ways to run a compiled script.
local host = ...

local raw_pcall, raw_xpcall, raw_rawset, raw_setmetatable = pcall, xpcall, rawset, setmetatable
local raw_next, raw_pairs, raw_rawget, raw_unpack = next, pairs, rawget, unpack
local raw_resume, type, tostring, error, select = coroutine.resume, type, tostring, error, select
local convert, final, check, where = host.convert, host.final, host.check, host.where
local builtin, int, is_deep, gsub = host.builtin, host.int, host.is_deep, string.gsub

local READONLY = 'Attempt to modify a readonly table'
-- The tables that scripts see and cannot change, with what is in them.
local sealed = raw_setmetatable({}, { __mode = 'k' })

local function refuse_write()
  error(READONLY, 2)
end

local function seal(contents)
  local proxy = raw_setmetatable({}, {
    __index = contents, __newindex = refuse_write, __metatable = false,
  })
  sealed[proxy] = contents
  return proxy
end

-- Errors of Rust arrive as userdata; scripts expect the tables of Redis.
local function caught(ok, ...)
  if ok then return true, ... end
  return false, convert((...))
end

local visible = {}
for _, name in ipairs { 'assert', 'error', 'gcinfo', 'getmetatable', 'ipairs', 'rawequal', 'select',
  'tonumber', 'tostring', 'type', '_VERSION' } do
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
  if not ok then
    check()
    convert((...))
  end
  return ok, ...
end

function visible.xpcall(f, handler)
  return outlived(returned(depth, raw_xpcall(f, function(err) return handler(final(err)) end)))
end

-- These would write past the seal. An argument that is wrong is refused all the same.
local function writing(raw)
  return builtin(function(...)
    if sealed[(...)] then
      raw({}, select(2, ...))
      error(READONLY, 0)
    end
    return raw(...)
  end)
end

visible.rawset, visible.setmetatable = writing(rawset), writing(setmetatable)

local function copy(members)
  local copied = {}
  for name, member in raw_pairs(members) do copied[name] = member end
  return copied
end

local tables = copy(table)
tables.insert = writing(table.insert)

-- These look behind the seal; nobody gets hold of what is there.
local function reading(raw)
  return builtin(function(...)
    local contents = sealed[(...)]
    if contents then return raw(contents, select(2, ...)) end
    return raw(...)
  end)
end

visible.next, visible.rawget = reading(next), reading(rawget)
visible.pairs = builtin(function(...)
  local t = ...
  if sealed[t] then return visible.next, t, nil end
  return raw_pairs(...)
end)

-- Lua's own counts in C's int and lets it overflow.
visible.unpack = builtin(function(...)
  local t, first, last = ...
  if type(t) == 'table' then
    first = int(first == nil and 1 or first)
    last = int(last == nil and #t or last)
    if first and last and last - first >= host.results then error('too many results to unpack') end
  end
  return raw_unpack(...)
end)

-- Lua's own matches each repeated item of a pattern by a call of its own, however many there are.
local function matching(raw, may_be_plain)
  return builtin(function(...)
    local _, pattern, _, plain = ...
    if type(pattern) == 'string' and #pattern > host.pattern_items
      and not (may_be_plain and plain)
      and select(2, gsub(pattern, '[*+?-]', '')) > host.pattern_items then
      error('pattern too complex')
    end
    return raw(...)
  end)
end

local strings = copy(string)
strings.find, strings.match = matching(string.find, true), matching(string.match)
strings.gmatch, strings.gsub = matching(string.gmatch), matching(string.gsub)

local threads = copy(coroutine)

local function resume(...)
  if depth >= DEPTH_MAX or is_deep() then return false, 'C stack overflow' end
  depth = depth + 1
  return returned(depth - 1, raw_resume(...))
end

function threads.resume(...)
  return caught(resume(...))
end

-- What wrap gives must be a function of C, which a tail call leaves on the stack: Lua's own wrap makes one that
-- resumes this, and tells errors where it was called.
local raw_wrap, raw_yield = coroutine.wrap, coroutine.yield
local function drive(thread, ok, ...)
  if not ok then error(convert((...)), 0) end
  return drive(thread, resume(thread, raw_yield(...)))
end

threads.wrap = builtin(function(...)
  local thread = coroutine.create(...)
  return raw_wrap(function(...) return drive(thread, resume(thread, ...)) end)
end)

-- Compiled chunks are not checked, and could make Lua do anything: they are read as text, as Redis does.
local raw_loadstring = loadstring
local function load_text(...)
  local text, name = ...
  if type(text) ~= 'string' or text:byte() ~= 27 then return raw_loadstring(...) end
  name = type(name) == 'string' and name or text
  local shown = name:match('^[=@](.*)') or '[string "' .. name:match('^%Z*') .. '"]'
  return nil, shown .. ":1: unexpected symbol near 'char(27)'"
end

visible.loadstring = builtin(load_text)

-- The pieces are put together first, for any of them may be the one that begins a chunk.
local raw_load = load
visible.load = builtin(function(...)
  local reader, name = ...
  if type(reader) ~= 'function' then return raw_load(...) end
  local pieces = {}
  repeat
    local ok, piece = caught(raw_pcall(reader))
    if not ok then return nil, piece end
    if piece ~= nil and type(piece) ~= 'string' then
      return nil, 'reader function must return a string'
    end
    pieces[#pieces + 1] = piece
  until piece == nil or piece == ''
  return load_text(table.concat(pieces), type(name) == 'string' and name or '=(load)')
end)

-- How Lua collects is not a script's to say: it would go on for all others.
local raw_collectgarbage = collectgarbage
local COLLECTING = { collect = true, count = true, step = true }
local STEERING = { stop = 0, restart = 0, setpause = 200, setstepmul = 200 }
function visible.collectgarbage(option, ...)
  if STEERING[option] then return STEERING[option] end
  if type(option) == 'string' and not COLLECTING[option] then
    error("bad argument #1 to 'collectgarbage' (invalid option '" .. option .. "')", 2)
  end
  return raw_collectgarbage(option, ...)
end

local numbers = copy(math)
numbers.random, numbers.randomseed = host.random, host.randomseed

getmetatable('').__index, getmetatable('').__metatable = strings, false

visible.coroutine = seal(threads)
visible.math = seal(numbers)
visible.string = seal(strings)
visible.table = seal(tables)
visible.bit = seal(host.bit)
visible.cjson = seal(host.cjson)
visible.cmsgpack = seal(host.cmsgpack)
visible.struct = seal(host.struct)
visible.redis = seal(host.redis)

local function refuse_read(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

raw_setmetatable(visible, { __index = refuse_read })
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

-- What a library of functions sees: while it is loaded the way to register them, later what scripts see,
-- but no KEYS and ARGV.
local loading, registered = false, {}
local in_functions = copy(visible)

local function refuse(why)
  error({ err = 'ERR ' .. why }, 0)
end

local FLAGS = { ['no-writes'] = true, ['allow-oom'] = true, ['allow-stale'] = true,
  ['no-cluster'] = true, ['allow-cross-slot-keys'] = true }

local function is_text(value)
  return type(value) == 'string' or type(value) == 'number'
end

local function flags_of(given)
  if type(given) ~= 'table' then
    refuse('flags argument to redis.register_function must be a table representing function flags')
  end
  local flags = {}
  for name in pairs(FLAGS) do flags[name] = false end
  for _, flag in ipairs(given) do
    if not FLAGS[flag] then refuse('unknown flag given') end
    flags[flag] = true
  end
  return flags
end

local function named(given)
  local entry = { flags = flags_of {} }
  for name, value in pairs(given) do
    if type(name) ~= 'string' then
      refuse('named argument key given to redis.register_function is not a string')
    elseif name == 'function_name' or name == 'description' then
      if not is_text(value) then
        refuse(name .. ' argument given to redis.register_function must be a string')
      end
      entry[name == 'description' and name or 'name'] = tostring(value)
    elseif name == 'callback' then
      if type(value) ~= 'function' then
        refuse('callback argument given to redis.register_function must be a function')
      end
      entry.callback = value
    elseif name == 'flags' then
      entry.flags = flags_of(value)
    else
      refuse('unknown argument given to redis.register_function')
    end
  end
  if not entry.name then refuse('redis.register_function must get a function name argument') end
  if not entry.callback then refuse('redis.register_function must get a callback argument') end
  return entry
end

local function entry_of(...)
  local count, name, callback = select('#', ...), ...
  if count == 1 and type(name) == 'table' then return named(name) end
  if count == 1 then
    refuse('calling redis.register_function with a single argument is only applicable to Lua table'
      .. ' (representing named arguments).')
  elseif count ~= 2 then
    refuse('wrong number of arguments to redis.register_function')
  elseif not is_text(name) then
    refuse('first argument to redis.register_function must be a string')
  elseif type(callback) ~= 'function' then
    refuse('second argument to redis.register_function must be a function')
  end
  return { name = tostring(name), callback = callback, flags = flags_of {} }
end

local function register_function(...)
  local entry = entry_of(...)
  if not entry.name:match('^[%w_]+$') then
    refuse('Library names can only contain letters, numbers, or underscores(_) and must be at least'
      .. ' one character long')
  end
  for _, other in ipairs(registered) do
    if other.name == entry.name then refuse('Function already exists in the library') end
  end
  registered[#registered + 1] = entry
end

local while_loading = raw_setmetatable({ register_function = register_function }, { __index = refuse_read })
for name, member in pairs(host.redis) do
  if type(member) ~= 'function' or name == 'log' then while_loading[name] = member end
end
local in_loading = { redis = seal(while_loading) }

local function global(_, name)
  local value = (loading and in_loading or in_functions)[name]
  if value ~= nil then return value end
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function_globals = raw_setmetatable({}, {
  __index = global, __newindex = refuse_write, __metatable = false,
})
sealed[function_globals] = in_functions
in_functions._G = function_globals

local function load_functions(chunk)
  depth, loading, registered = 0, true, {}
  local ok, err = raw_xpcall(setfenv(chunk, function_globals), uncaught)
  loading = false
  if not ok then return false, err end
  return true, registered
end

local function run_function(callback, keys, args)
  depth = 0
  return raw_xpcall(function() return callback(keys, args) end, uncaught)
end

return globals, load_text, run_no_key, run_one_key, run_keys, load_functions, run_function
