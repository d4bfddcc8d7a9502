-- midfill for Neovim: what users and their key mappings call. Owns which renderer serves a buffer, and the keys.
local item = require('midfill.item')
local options = require('midfill.options')
local requests = require('midfill.requests')
local server = require('midfill.server')
local status = require('midfill.status')
local tell = require('midfill.tell')

local M = {}

local attached = {} ---@type table<integer, {renderer: table, client: integer}> by buffer
local is_off = {} ---@type table<integer, true> buffers without suggestions
local is_set_up = false

local function renderer()
  local native = require('midfill.native')
  if options.values.renderer == 'own' or not native.is_possible() then
    return require('midfill.own')
  end
  return native
end

---@return table|nil renderer
---@return integer buf
local function here()
  local buf = vim.api.nvim_get_current_buf()
  return attached[buf] and attached[buf].renderer, buf
end

---Called for every client that attaches; others' are left alone.
---@param buf integer
---@param client table
function M.attach(buf, client)
  if client.name ~= 'midfill' or is_off[buf] then
    return
  end
  attached[buf] = { renderer = renderer(), client = client.id }
  attached[buf].renderer.attach(buf, client)
end

---@param buf integer
function M.detach(buf)
  local one = attached[buf]
  if one then
    attached[buf] = nil
    one.renderer.detach(buf)
  end
end

---@param part "all"|"word"|"line"
---@return boolean was_put
local function accept(part)
  local ghost, buf = here()
  if not ghost or vim.fn.pumvisible() == 1 then -- the key belongs to the popup menu
    return false
  end
  local one = ghost.current(buf)
  if not one then
    return part == 'all' and ghost.accept_plainly ~= nil and ghost.accept_plainly(buf)
  end
  local rest, was_put = item.put(one, part)
  if not was_put then
    return false
  end
  requests.keep(buf, rest)
  if rest then
    ghost.replace(buf, { rest })
  else
    ghost.dismiss(buf)
    if one.command then
      M.run(one.command)
    end
  end
  return true
end

---Takes what is shown.
---@return boolean whether anything was taken; if not, a mapping should do what its key does otherwise
function M.accept()
  return accept('all')
end

---@return boolean
function M.accept_word()
  return accept('word')
end

---@return boolean
function M.accept_line()
  return accept('line')
end

---@return boolean
function M.dismiss()
  local ghost, buf = here()
  if not ghost or not ghost.current(buf) then
    return false
  end
  requests.keep(buf, nil)
  ghost.dismiss(buf)
  return true
end

---@param count integer
---@return boolean
local function select(count)
  local ghost, buf = here()
  if not ghost or not ghost.current(buf) then
    return false
  end
  ghost.select(buf, count)
  return true
end

---@return boolean
function M.next()
  return select(1)
end

---@return boolean
function M.previous()
  return select(-1)
end

---Asks now, and for several suggestions.
---@return boolean
function M.trigger()
  local ghost, buf = here()
  if not ghost then
    return false
  end
  ghost.request(buf, requests.INVOKED)
  return true
end

---What would be inserted now, for tests and for statistics of one's own.
---@return string|nil
function M.shown()
  local ghost, buf = here()
  local one = ghost and ghost.current(buf)
  return one and item.left(one) or nil
end

---@param buf integer|nil
---@return string for the status line
function M.status(buf)
  return status.short(buf or vim.api.nvim_get_current_buf())
end

---Runs a command of the server that serves the current buffer.
---@param command table
---@param done fun(result: any, sentence: string|nil)|nil
function M.run(command, done)
  local client = server.client(vim.api.nvim_get_current_buf())
  if client then
    server.run(client, command, done)
  elseif done then
    done(nil, 'midfill does not run in this buffer')
  end
end

---@param is_on boolean
---@param buf integer|nil
function M.enable(is_on, buf)
  buf = buf or vim.api.nvim_get_current_buf()
  is_off[buf] = not is_on or nil
  M.detach(buf)
  local client = server.client(buf)
  if is_on and client then
    M.attach(buf, client)
  end
end

local function start()
  local why = server.why_missing()
  if why then
    tell.once(why)
    return
  end
  if vim.fn.has('nvim-0.11') == 1 then
    local config = server.config()
    config.name = nil
    vim.lsp.config('midfill', config)
    vim.lsp.enable('midfill')
  else
    server.start_by_filetype()
  end
end

---Ends the server and starts it again, with the options as they are now.
function M.restart()
  local clients = vim.lsp.get_clients({ name = 'midfill' })
  for _, client in ipairs(clients) do
    server.expect_end(client.id)
    if vim.fn.has('nvim-0.11') == 1 then
      client:stop(true)
    else
      client.stop(true)
    end
  end
  tell.forget()
  vim.wait(2000, function()
    return #vim.lsp.get_clients({ name = 'midfill' }) == 0
  end, 20)
  start()
end

---@param key string
---@param action string
local function map(key, action)
  local before = vim.fn.maparg(key, 'i', false, true)
  local plug = ('<Plug>(midfill-%s)'):format(action)
  if before.rhs == plug or before.desc == 'midfill: ' .. action then
    return
  end
  local function feed(keys, mode)
    vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, true, true), mode, false)
  end
  vim.keymap.set('i', key, function()
    if M[action]() then
      return
    end
    -- what the key does otherwise, in front of what was typed meanwhile
    if before.callback then
      local keys = before.callback()
      if before.expr == 1 and type(keys) == 'string' then
        feed(keys, before.noremap == 1 and 'in' or 'im')
      end
    elseif before.rhs and before.rhs ~= '' then
      local keys = before.expr == 1 and vim.api.nvim_eval(before.rhs) or before.rhs
      feed(keys, before.noremap == 1 and 'in' or 'im')
    else
      feed(key, 'in')
    end
  end, { desc = 'midfill: ' .. action })
end

local ACTIONS = {
  accept = 'accept',
  word = 'accept_word',
  line = 'accept_line',
  dismiss = 'dismiss',
  next = 'next',
  previous = 'previous',
  trigger = 'trigger',
}

---@param given midfill.Options|nil
function M.setup(given)
  for _, problem in ipairs(options.set(given)) do
    tell.once('midfill: ' .. problem)
  end
  for name, key in pairs(options.values.keys) do
    if key and ACTIONS[name] then
      map(key, ACTIONS[name])
    end
  end
  is_set_up = true
  start()
end

---@return boolean
function M.is_set_up()
  return is_set_up
end

return M
