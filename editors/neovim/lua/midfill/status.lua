-- What the server said last of itself, for the status line and for `:Midfill status`. Refuses to ask it.
local M = {}

---@class midfill.Status
---@field state string starting, downloading, loading, ready, thinking, paused or error
---@field message string
---@field percent integer|nil
---@field reason string|nil why nothing was shown

local said = {} ---@type table<integer, midfill.Status> by client

---@param id integer
---@param params midfill.Status
function M.heard(id, params)
  said[id] = params
  vim.schedule(function()
    vim.api.nvim_exec_autocmds('User', { pattern = 'MidfillStatus', modeline = false })
    vim.cmd.redrawstatus()
  end)
end

---@param id integer
function M.forget(id)
  said[id] = nil
end

---@param buf integer
---@return midfill.Status|nil
function M.of(buf)
  for _, client in ipairs(vim.lsp.get_clients({ bufnr = buf, name = 'midfill' })) do
    return said[client.id] or { state = 'starting', message = 'starting' }
  end
  return nil
end

---A few characters for the status line; empty where midfill isn't running.
---@param buf integer
---@return string
function M.short(buf)
  local now = M.of(buf)
  if not now then
    return ''
  end
  return 'midfill: ' .. now.state .. (now.percent and (' %d%%'):format(now.percent) or '')
end

---A sentence.
---@param buf integer
---@return string
function M.long(buf)
  local now = M.of(buf)
  if not now then
    return 'midfill does not run in this buffer'
  end
  local text = M.short(buf)
  if now.message ~= '' and now.message ~= now.state then
    text = text .. '; ' .. now.message
  end
  if now.reason and now.reason ~= '' then
    text = text .. '; nothing was shown: ' .. now.reason
  end
  return text
end

return M
