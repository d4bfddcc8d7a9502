-- The options of this plugin: the defaults, and what the user has set. Refuses to act on them.
local M = {}

---@class midfill.Options
---@field cmd string[] how the language server is started
---@field settings table the server's own settings (docs/settings.md), sent when it starts
---@field filetypes string[]|nil only these; nil: every file
---@field renderer "auto"|"native"|"own" who draws the ghost text; auto: Neovim itself where it can (0.12)
---@field debounce_ms integer renderer "own": rest after a key before the server is asked; it debounces itself, too
---@field patience_s number how long a request may stay unanswered before the user is told; 0: for ever
---@field keys table<string, string|false> keys in insert mode, by action; false: none
---@field on_message fun(sentence: string, level: integer)|nil where sentences for the user go; nil: vim.notify

---@type midfill.Options
local defaults = {
  cmd = { 'midfill', 'lsp' },
  settings = {},
  filetypes = nil,
  renderer = 'auto',
  debounce_ms = 30,
  patience_s = 10,
  keys = {
    accept = '<Tab>',
    word = '<C-Right>',
    line = '<C-Down>',
    dismiss = '<C-]>',
    next = '<M-]>',
    previous = '<M-[>',
    trigger = '<M-\\>',
  },
  on_message = nil,
}

---@type midfill.Options
M.values = vim.deepcopy(defaults)

---Takes the user's options over the defaults. Tells of names that are not known instead of ignoring them.
---@param given table|nil
---@return string[] problems one sentence each
function M.set(given)
  local problems = {}
  for name in pairs(given or {}) do
    if defaults[name] == nil and name ~= 'filetypes' and name ~= 'on_message' then
      table.insert(problems, ('there is no option %q; :help midfill-options lists them'):format(name))
    end
  end
  for name in pairs((given or {}).keys or {}) do
    if defaults.keys[name] == nil then
      table.insert(problems, ('there is no action %q for a key; :help midfill-keys lists them'):format(name))
    end
  end
  M.values = vim.tbl_deep_extend('force', vim.deepcopy(defaults), given or {})
  if given and given.cmd then
    M.values.cmd = given.cmd -- a list is replaced, not merged
  end
  return problems
end

return M
