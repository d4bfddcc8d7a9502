-- Ghost text on the screen: between the cursor and what stands behind it, and on lines of its own below.
local item = require('midfill.item')

local M = {}

---Draws what of it is new, at the cursor.
---@param buf integer the current one
---@param namespace integer what it holds is replaced
---@param one midfill.Item|nil
---@param hint string|nil behind the text
---@return boolean whether it fits
function M.draw(buf, namespace, one, hint)
  vim.api.nvim_buf_clear_namespace(buf, namespace, 0, -1)
  local left = one and item.left(one)
  if not one or not left then
    return false
  end
  local where = item.where()
  local lines = {}
  for line in vim.gsplit(item.visible(one, left), '\n', { plain = true }) do
    table.insert(lines, { { line, 'MidfillGhost' } })
  end
  if hint then
    table.insert(lines[#lines], { hint, 'MidfillHint' })
  end
  vim.api.nvim_buf_set_extmark(buf, namespace, where.row, where.col, {
    virt_text = lines[1],
    virt_text_pos = 'inline',
    virt_lines = #lines > 1 and vim.list_slice(lines, 2) or nil,
    hl_mode = 'combine',
  })
  return true
end

return M
