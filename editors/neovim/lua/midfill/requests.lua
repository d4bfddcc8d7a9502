-- Requests for suggestions: what is asked, what of an answer still fits, and that nobody waits for ever.
-- Owns what was asked last in each buffer, and the items of the last answer.
local item = require('midfill.item')
local options = require('midfill.options')
local tell = require('midfill.tell')

local M = {}

M.METHOD = 'textDocument/inlineCompletion'
M.INVOKED, M.AUTOMATIC = 1, 2

local newest = {} ---@type table<integer, integer> by buffer: number of the last request
local n_asked = 0

M.taken = {} ---@type table<integer, midfill.Item[]> by buffer: what the last answer that fitted held

local kept = {} ---@type table<integer, midfill.Item> by buffer: the rest of an item of which a part was taken

---As long as it fits, automatic answers don't replace it: they may be shorter, or none.
---@param buf integer
---@param one midfill.Item|nil
function M.keep(buf, one)
  kept[buf] = one
end

---The methods of a client take it as their first argument since 0.11.
---@param client table
---@param method string
---@param params table
---@param handler function
---@param buf integer
function M.send(client, method, params, handler, buf)
  if vim.fn.has('nvim-0.11') == 1 then
    return client:request(method, params, handler, buf)
  end
  return client.request(method, params, handler, buf)
end

---The items of an answer that fit the buffer as it is now, and how they came.
---@param result table|nil
---@param where midfill.Where
---@param encoding string
---@return midfill.Item[] items
---@return table[] raws
local function fitting(result, where, encoding)
  local items, raws = {}, {}
  if type(result) == 'table' then
    for _, raw in ipairs(result.items or result) do
      local one = item.of(raw, where, encoding)
      if one and item.left(one) then
        table.insert(items, one)
        table.insert(raws, vim.tbl_extend('force', raw, { insertText = one.text }))
      end
    end
  end
  return items, raws
end

---A handler that passes on only what still fits. An answer that was overtaken, or is an error, changes nothing: what is
---shown stays until the newest is there.
---@param client table
---@param buf integer
---@param kind integer
---@param pass fun(items: midfill.Item[], raws: table[], context: table)
---@return function handler
---@return fun(id: integer|nil) on_sent
local function guarded(client, buf, kind, pass)
  n_asked = n_asked + 1
  local number, where = n_asked, item.where()
  newest[buf] = number
  local function handler(err, result, context)
    if err or vim.api.nvim_get_current_buf() ~= buf then
      return
    end
    if kept[buf] and kind == M.AUTOMATIC and item.left(kept[buf]) then
      return
    end
    kept[buf] = nil
    local items, raws = fitting(result, where, client.offset_encoding)
    if #items > 0 or newest[buf] == number then
      M.taken[buf] = items
      pass(items, raws, context)
    end
  end
  local function on_sent(id)
    local patience_s = options.values.patience_s
    if not id or patience_s <= 0 then
      return
    end
    vim.defer_fn(function()
      if client.requests[id] then -- also one that was cancelled is answered
        tell.once(
          ('midfill has not answered for %d seconds; ":Midfill restart" starts it anew, ":Midfill log" may say more'):format(
            patience_s
          )
        )
      end
    end, patience_s * 1000)
  end
  return handler, on_sent
end

---Asks for the cursor's place in the current buffer.
---@param client table
---@param kind integer
---@param pass fun(items: midfill.Item[])
---@return integer|nil id
function M.ask(client, kind, pass)
  local buf = vim.api.nvim_get_current_buf()
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  params.context = { triggerKind = kind }
  local handler, on_sent = guarded(client, buf, kind, pass)
  local _, id = M.send(client, M.METHOD, params, handler, buf)
  on_sent(id)
  return id
end

---Neovim's own requests (0.12) get the same care: it takes any answer that comes, also for a text that is gone, and logs what
---was superseded as an error.
---@param client table
function M.guard(client)
  local request = client.request
  client.request = function(self, method, params, handler, buf)
    if method ~= M.METHOD then
      return request(self, method, params, handler, buf)
    end
    buf = (buf == nil or buf == 0) and vim.api.nvim_get_current_buf() or buf
    if buf ~= vim.api.nvim_get_current_buf() then
      return request(self, method, params, function() end, buf)
    end
    local guard, on_sent = guarded(client, buf, params.context.triggerKind, function(_, raws, context)
      handler(nil, { items = raws }, context)
    end)
    local is_sent, id = request(self, method, params, guard, buf)
    on_sent(id)
    return is_sent, id
  end
end

return M
