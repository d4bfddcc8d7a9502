-- `:checkhealth midfill`: what keeps suggestions from coming, and what to do.
local M = {}

local function check_neovim()
  local health = vim.health
  if vim.fn.has('nvim-0.10') == 0 then
    health.error('Neovim is older than 0.10', { 'Install Neovim 0.10 or newer.' })
    return false
  end
  local native = require('midfill.native').is_possible()
  local wanted = require('midfill.options').values.renderer
  health.ok(
    ('Neovim %s; ghost text is drawn by %s'):format(
      tostring(vim.version()),
      (native and wanted ~= 'own') and 'vim.lsp.inline_completion' or 'this plugin'
    )
  )
  return true
end

local function check_server()
  local health = vim.health
  local command = require('midfill.options').values.cmd
  local why = require('midfill.server').why_missing()
  if why then
    health.error(why, { 'A checkout has it as .venv/bin/midfill after `make setup`.' })
    return
  end
  local told = vim.fn.system({ command[1], '--version' })
  if vim.v.shell_error == 0 then
    health.ok(vim.trim(told) .. ' (' .. vim.fn.exepath(command[1]) .. ')')
  else
    health.error(('%s --version failed: %s'):format(command[1], vim.trim(told)), { 'Run it in a terminal.' })
  end
end

local function check_running()
  local health = vim.health
  if not require('midfill').is_set_up() and #vim.lsp.get_clients({ name = 'midfill' }) == 0 then
    health.warn('setup was not called', { 'require("midfill").setup()' })
    return
  end
  local clients = vim.lsp.get_clients({ name = 'midfill' })
  if #clients == 0 then
    health.warn('the server is not running', { 'Open a file; or :Midfill restart', ':Midfill log' })
    return
  end
  for _, client in ipairs(clients) do
    local buf = next(client.attached_buffers)
    local now = buf and require('midfill.status').of(buf)
    local sentence = ('client %d: %s'):format(client.id, buf and require('midfill.status').long(buf) or 'no buffer')
    if now and now.state == 'error' then
      health.error(sentence, { '`midfill doctor` tells what is wrong and what to do.' })
    else
      health.ok(sentence)
    end
    if not client.server_capabilities.inlineCompletionProvider then
      health.error('this server does not offer textDocument/inlineCompletion', { 'Install a newer midfill.' })
    end
  end
end

local function check_keys()
  local health = vim.health
  for name, key in pairs(require('midfill.options').values.keys) do
    local mapping = key and vim.fn.maparg(key, 'i', false, true) or {}
    if key and not vim.startswith(mapping.desc or '', 'midfill') and not (mapping.rhs or ''):find('midfill') then
      health.warn(('%s (%s) is mapped to something else: %s'):format(key, name, mapping.desc or mapping.rhs or 'nothing'), {
        'Call require("midfill").setup() after what maps it, or choose another key; :help midfill-keys.',
      })
    end
  end
end

function M.check()
  vim.health.start('midfill')
  if check_neovim() then
    check_server()
    check_running()
    if require('midfill').is_set_up() then
      check_keys()
    end
  end
end

return M
