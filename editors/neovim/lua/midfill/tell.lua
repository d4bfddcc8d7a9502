-- Sentences for the user, each of them once. Refuses to decide what is worth telling.
local options = require('midfill.options')

local M = {}
local told = {} ---@type table<string, true>

---@param sentence string
---@param level integer|nil of vim.log.levels; nil: a warning
function M.once(sentence, level)
  if told[sentence] then
    return
  end
  told[sentence] = true
  M.say(sentence, level)
end

---@param sentence string
---@param level integer|nil
function M.say(sentence, level)
  level = level or vim.log.levels.WARN
  vim.schedule(function()
    if options.values.on_message then
      options.values.on_message(sentence, level)
    else
      vim.notify(sentence, level, { title = 'midfill' })
    end
  end)
end

---What was told may be told again: the user has started the server anew.
function M.forget()
  told = {}
end

return M
