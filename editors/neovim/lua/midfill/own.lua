-- Ghost text drawn by this plugin, for a Neovim that has none (0.10, 0.11) and for whoever prefers it.
-- Owns the requests while one types, the items that came, and the marks on the screen.
local drawing = require('midfill.drawing')
local item = require('midfill.item')
local options = require('midfill.options')
local requests = require('midfill.requests')

local M = {}

local namespace = vim.api.nvim_create_namespace('midfill.ghost')

---@class midfill.Ghost
---@field client table
---@field items midfill.Item[]
---@field index integer
---@field timer table|nil
---@field tick integer of the buffer when it was asked last
---@field cursor integer[]|nil where it was asked last

local ghosts = {} ---@type table<integer, midfill.Ghost>

local function stop_timer(ghost)
  if ghost.timer then
    ghost.timer:stop()
    if not ghost.timer:is_closing() then
      ghost.timer:close()
    end
    ghost.timer = nil
  end
end

---@param buf integer
---@param hint string|nil behind the text
local function draw(buf, hint)
  local ghost = ghosts[buf]
  drawing.draw(buf, namespace, ghost.items[ghost.index], hint)
end

---@param buf integer
---@return midfill.Item|nil
function M.current(buf)
  local ghost = ghosts[buf]
  local one = ghost and ghost.items[ghost.index]
  return one and item.left(one) and one or nil
end

---@param buf integer
function M.dismiss(buf)
  local ghost = ghosts[buf]
  if not ghost then
    return
  end
  stop_timer(ghost)
  ghost.items = {}
  vim.api.nvim_buf_clear_namespace(buf, namespace, 0, -1)
  for id, request in pairs(ghost.client.requests) do
    if request.type == 'pending' and request.method == requests.METHOD and request.bufnr == buf then
      if vim.fn.has('nvim-0.11') == 1 then
        ghost.client:cancel_request(id)
      else
        ghost.client.cancel_request(id)
      end
    end
  end
end

---@param buf integer
---@param kind integer
function M.request(buf, kind)
  local ghost = ghosts[buf]
  requests.ask(ghost.client, kind, function(items)
    if ghosts[buf] ~= ghost or not vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
      return
    end
    ghost.items, ghost.index = items, 1
    draw(buf)
  end)
end

---Shows these in place of what is shown: the rest of an item of which a part was taken.
---@param buf integer
---@param items midfill.Item[]
function M.replace(buf, items)
  local ghost = ghosts[buf]
  ghost.items, ghost.index = items, 1
  draw(buf)
end

---@param buf integer
---@param count integer
function M.select(buf, count)
  local ghost = ghosts[buf]
  local n = #ghost.items
  if n == 0 then
    return
  end
  ghost.index = (ghost.index - 1 + count) % n + 1
  draw(buf, (' (%d/%d)'):format(ghost.index, n))
end

---After a key: what is shown shrinks or goes, and the server is asked again unless nothing has changed.
local function moved(buf)
  local ghost = ghosts[buf]
  if not ghost or vim.api.nvim_get_current_buf() ~= buf then
    return
  end
  local tick, cursor = vim.api.nvim_buf_get_changedtick(buf), vim.api.nvim_win_get_cursor(0)
  if ghost.tick == tick and vim.deep_equal(ghost.cursor, cursor) then
    return
  end
  ghost.tick, ghost.cursor = tick, cursor
  if #ghost.items > 0 and not M.current(buf) then
    ghost.items = {}
  end
  draw(buf)
  stop_timer(ghost)
  ghost.timer = vim.defer_fn(function()
    ghost.timer = nil
    if vim.api.nvim_get_current_buf() == buf and vim.startswith(vim.api.nvim_get_mode().mode, 'i') then
      M.request(buf, requests.AUTOMATIC)
    end
  end, options.values.debounce_ms)
end

---@param buf integer
---@param client table
function M.attach(buf, client)
  if ghosts[buf] then
    M.detach(buf)
  end
  ghosts[buf] = { client = client, items = {}, index = 1, tick = -1 }
  local group = vim.api.nvim_create_augroup('midfill.own.' .. buf, { clear = true })
  vim.api.nvim_create_autocmd({ 'InsertEnter', 'CursorMovedI', 'TextChangedI', 'TextChangedP' }, {
    group = group,
    buffer = buf,
    callback = function()
      moved(buf)
    end,
  })
  vim.api.nvim_create_autocmd({ 'InsertLeave', 'BufLeave' }, {
    group = group,
    buffer = buf,
    callback = function()
      ghosts[buf].tick = -1
      M.dismiss(buf)
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufUnload' }, {
    group = group,
    buffer = buf,
    callback = function()
      M.detach(buf)
    end,
  })
end

---@param buf integer
function M.detach(buf)
  if ghosts[buf] then
    if vim.api.nvim_buf_is_loaded(buf) then
      M.dismiss(buf)
    end
    ghosts[buf] = nil
    pcall(vim.api.nvim_del_augroup_by_name, 'midfill.own.' .. buf)
  end
end

return M
