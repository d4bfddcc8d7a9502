-- Ghost text of Neovim's `vim.lsp.inline_completion` (0.12), and what it can't do yet: hide a suggestion that does not fit any
-- more, show one in front of text, take a part of it, be asked. The only place that reaches into it; where its inside looks
-- otherwise, its public functions do what they can.
local drawing = require('midfill.drawing')
local item = require('midfill.item')
local requests = require('midfill.requests')

local M = {}

local namespace = vim.api.nvim_create_namespace('nvim.lsp.inline_completion') -- its own, so that it hides what is drawn here

---@return boolean
function M.is_possible()
  return vim.lsp.inline_completion ~= nil
end

---Neovim's state of a buffer; nil: there is none, or it is not to be found there.
---@param buf integer
---@return table|nil
local function completor(buf)
  local has, capability = pcall(require, 'vim.lsp._capability')
  local kind = has and type(capability.all) == 'table' and capability.all.inline_completion
  local one = type(kind) == 'table' and type(kind.active) == 'table' and kind.active[buf] or nil
  if one and one.abort and one.handler and one.request and one.show and one.client_state then
    return one
  end
  return nil
end

---@param buf integer
---@return midfill.Item|nil
function M.current(buf)
  local one = completor(buf)
  if not (one and one.current) then
    return nil
  end
  -- items stand in the order of the answer, those of clients with lower numbers before them
  local before = 0
  for id, state in pairs(one.client_state) do
    before = before + (id < one.current.client_id and #(state.items or {}) or 0)
  end
  local client = vim.lsp.get_client_by_id(one.current.client_id)
  local taken = client and client.name == 'midfill' and (requests.taken[buf] or {})[one.current._index - before] or nil
  return taken and item.left(taken) and taken or nil
end

---Without its inside: the whole item, its range fitted to what was typed since, by the public way.
---@param buf integer
---@return boolean
function M.accept_plainly(buf)
  if completor(buf) then
    return false
  end
  return vim.lsp.inline_completion.get({
    bufnr = buf,
    on_accept = function(given)
      for _, one in ipairs(requests.taken[buf] or {}) do
        if item.left(one) and given.command == one.command then
          local _, was_put = item.put(one, 'all')
          if was_put and one.command then
            require('midfill').run(one.command)
          end
          return nil
        end
      end
      return nil
    end,
  })
end

---@param buf integer
function M.dismiss(buf)
  local one = completor(buf)
  if one then
    one:abort()
  end
end

---@param buf integer
---@param kind integer
function M.request(buf, kind)
  local one = completor(buf)
  if one then
    one:request(kind)
  end
end

---Shown as if the server had answered with these.
---@param buf integer
---@param items midfill.Item[]
function M.replace(buf, items)
  local one = completor(buf)
  if not one then
    return
  end
  for id in pairs(one.client_state) do
    local client = vim.lsp.get_client_by_id(id)
    if client and client.name == 'midfill' then
      local raws = {}
      for _, left in ipairs(items) do
        table.insert(raws, item.to_raw(left, client.offset_encoding))
      end
      requests.taken[buf] = items
      one:handler(nil, { items = raws }, { client_id = id, bufnr = buf, method = requests.METHOD })
      return
    end
  end
end

---@param _ integer
---@param count integer
function M.select(_, count)
  vim.lsp.inline_completion.select({ count = count })
end

---Neovim skips what the suggestion and the text behind the cursor begin with in common, draws over that text, and goes on
---showing what was not typed: ours are drawn here, others' as they were.
---@param buf integer
local function refine(buf)
  local one = completor(buf)
  if not one or rawget(one, 'show') then
    return
  end
  local show = one.show
  one.show = function(self, hint)
    local from = self.current and vim.lsp.get_client_by_id(self.current.client_id)
    if not from or from.name ~= 'midfill' or vim.api.nvim_get_current_buf() ~= buf then
      return show(self, hint)
    end
    if not drawing.draw(buf, namespace, M.current(buf), hint) then
      self.current = nil
    end
  end
end

---@param buf integer
---@param client table
function M.attach(buf, client)
  if not client.midfill_is_guarded then
    client.midfill_is_guarded = true
    requests.guard(client)
  end
  vim.lsp.inline_completion.enable(true, { bufnr = buf })
  refine(buf)
end

---@param buf integer
function M.detach(buf)
  if vim.api.nvim_buf_is_valid(buf) then
    vim.lsp.inline_completion.enable(false, { bufnr = buf })
  end
end

return M
