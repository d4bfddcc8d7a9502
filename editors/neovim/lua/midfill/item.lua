-- One suggestion in one buffer: does it still fit what stands there, what of it is left, and putting it in.
-- Rows and columns are counted from 0, columns in bytes. Owns the conversion from the server's columns.
local M = {}

---@class midfill.Where the cursor when the server was asked
---@field row integer
---@field col integer
---@field line string the cursor's line

---@class midfill.Item
---@field row integer
---@field col integer where `text` begins
---@field text string all of it, lines divided by "\n"; begins with what stood between `col` and the cursor
---@field after string what stood behind the cursor on its line
---@field n_tail integer bytes of `after` that the suggestion replaces
---@field command table|nil what the server wants to be told afterwards

---@return midfill.Where
function M.where()
  local cursor = vim.api.nvim_win_get_cursor(0)
  return { row = cursor[1] - 1, col = cursor[2], line = vim.api.nvim_get_current_line() }
end

---@param line string
---@param n integer units of the encoding
---@param encoding string
---@return integer bytes
local function bytes(line, n, encoding)
  if encoding == 'utf-8' then
    return math.min(n, #line)
  end
  if vim.fn.has('nvim-0.11') == 1 then
    return vim.str_byteindex(line, encoding, n, false)
  end
  local n_utf32, n_utf16 = vim.str_utfindex(line)
  local most = encoding == 'utf-16' and n_utf16 or n_utf32
  return vim.str_byteindex(line, math.min(n, most), encoding == 'utf-16')
end

---From the server's form. nil: it isn't at the cursor, or does not go on from what stands there.
---@param raw table an InlineCompletionItem
---@param where midfill.Where
---@param encoding string
---@return midfill.Item|nil
function M.of(raw, where, encoding)
  local text = raw.insertText
  if type(text) == 'table' then
    text = text.value
  end
  if type(text) ~= 'string' then
    return nil
  end
  text = text:gsub('\r\n', '\n') -- a buffer's lines have no ends, whatever 'fileformat' says
  local from, to = where.col, where.col
  if raw.range then
    if raw.range.start.line ~= where.row or raw.range['end'].line ~= where.row then
      return nil
    end
    from = bytes(where.line, raw.range.start.character, encoding)
    to = bytes(where.line, raw.range['end'].character, encoding)
  end
  if from > where.col or to < where.col or not vim.startswith(text, where.line:sub(from + 1, where.col)) then
    return nil
  end
  return {
    row = where.row,
    col = from,
    text = text,
    after = where.line:sub(where.col + 1),
    n_tail = to - where.col,
    command = raw.command,
  }
end

---To the server's form, as an insertion at the cursor. nil: it does not fit.
---@param item midfill.Item
---@param encoding string
---@return table|nil
function M.to_raw(item, encoding)
  local left = M.left(item)
  if not left then
    return nil
  end
  local where = M.where()
  local function position(col)
    local character = col
    if encoding ~= 'utf-8' then
      local utf32, utf16 = vim.str_utfindex(where.line, col)
      character = encoding == 'utf-16' and utf16 or utf32
    end
    return { line = where.row, character = character }
  end
  return {
    insertText = left,
    range = { start = position(where.col), ['end'] = position(where.col + item.n_tail) },
    command = item.command,
  }
end

---What is still to be inserted at the cursor. nil: what was typed since is something else, or what stands behind the cursor
---has changed (an editor that closes brackets), so that the suggestion was made for another text.
---@param item midfill.Item
---@return string|nil
function M.left(item)
  local now = M.where()
  if now.row ~= item.row or now.col < item.col or now.line:sub(now.col + 1) ~= item.after then
    return nil
  end
  local typed = now.line:sub(item.col + 1, now.col)
  if #typed >= #item.text or not vim.startswith(item.text, typed) then
    return nil
  end
  return item.text:sub(#typed + 1)
end

---What of it is new to the eye: without what stands behind the cursor already and is repeated at the end.
---@param item midfill.Item
---@param left string
---@return string
function M.visible(item, left)
  local tail = item.after:sub(1, item.n_tail)
  if tail ~= '' and vim.endswith(left, tail) then
    return left:sub(1, #left - #tail)
  end
  return left
end

local WORD = '^%s*[%w_\128-\255]+'
local SIGNS = '^%s*[^%w_%s\128-\255]+'

---The next part of a text: "word" is blanks and a word or a run of signs, "line" goes up to the line's end.
---@param text string
---@param part "all"|"word"|"line"
---@return string
function M.part(text, part)
  if part == 'word' then
    return text:match(WORD) or text:match(SIGNS) or text
  end
  if part == 'line' then
    return text:match('^\n*[^\n]*')
  end
  return text
end

---A change of its own, for undo.
local function divide_undo()
  vim.bo.undolevels = vim.bo.undolevels -- setting it ends the change that is going on
end

---Puts the next part into the buffer, and the cursor behind it.
---@param item midfill.Item
---@param part "all"|"word"|"line"
---@return midfill.Item|nil rest what is left to suggest; nil: nothing
---@return boolean was_put
function M.put(item, part)
  local left = M.left(item)
  if not left then
    return nil, false
  end
  local where = M.where()
  local piece = M.part(left, part)
  local is_whole = #piece >= #M.visible(item, left)
  local n_replaced = 0
  if is_whole then
    piece, n_replaced = left, item.n_tail
  end
  local lines = vim.split(piece, '\n', { plain = true })
  local row = where.row + #lines - 1
  local col = (#lines == 1 and where.col or 0) + #lines[#lines]
  divide_undo()
  vim.api.nvim_buf_set_text(0, where.row, where.col, where.row, where.col + n_replaced, lines)
  vim.api.nvim_win_set_cursor(0, { row + 1, col })
  divide_undo()
  if is_whole then
    return nil, true
  end
  return {
    row = row,
    col = col,
    text = left:sub(#piece + 1),
    after = item.after,
    n_tail = item.n_tail,
    command = item.command,
  },
    true
end

return M
