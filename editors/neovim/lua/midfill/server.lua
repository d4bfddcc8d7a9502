-- The language server as Neovim's LSP client is to start it: its configuration, what it says, and that its end is told.
local options = require('midfill.options')
local requests = require('midfill.requests')
local status = require('midfill.status')
local tell = require('midfill.tell')

local M = {}

local leaving = {} ---@type table<integer, true> clients that were stopped on purpose

---The client was stopped by the user.
---@param id integer
function M.expect_end(id)
  leaving[id] = true
end

local LEVELS = {
  vim.log.levels.ERROR,
  vim.log.levels.WARN,
  vim.log.levels.INFO,
  vim.log.levels.DEBUG,
}

local function capabilities()
  local all = vim.lsp.protocol.make_client_capabilities()
  -- Neovim tells it since 0.12
  all.textDocument.inlineCompletion = all.textDocument.inlineCompletion or { dynamicRegistration = false }
  return all
end

---What to say when the server can't be started; nil: it can be.
---@return string|nil
function M.why_missing()
  local command = options.values.cmd[1]
  if vim.fn.executable(command) == 1 then
    return nil
  end
  return ('midfill: the server %q is not there; install it, or name it: require("midfill").setup({ cmd = { "/path/to/midfill", "lsp" } })'):format(
    command
  )
end

---@return table of |vim.lsp.ClientConfig|
function M.config()
  local values = options.values
  local settings = vim.tbl_isempty(values.settings) and vim.empty_dict() or values.settings
  return {
    name = 'midfill',
    cmd = values.cmd,
    filetypes = values.filetypes,
    root_markers = { '.git', '.hg', 'pyproject.toml', 'package.json', 'Cargo.toml', 'go.mod', 'Makefile' },
    init_options = settings,
    settings = { midfill = settings },
    capabilities = capabilities(),
    flags = { debounce_text_changes = 0, exit_timeout = 500 }, -- a suggestion must not wait for the change it is about
    exit_timeout = 500,
    handlers = {
      ['midfill/status'] = function(_, params, context)
        status.heard(context.client_id, params)
      end,
      ['window/showMessage'] = function(_, params)
        tell.once(params.message, LEVELS[params.type])
        return vim.NIL
      end,
    },
    on_exit = function(code, signal, id)
      status.forget(id)
      vim.schedule(function()
        -- 143: ended by a signal on purpose, as Neovim does on its way out
        if leaving[id] or vim.v.exiting ~= vim.NIL or (code == 0 and signal == 0) then
          return
        end
        tell.once(
          ('midfill: the server has ended (%s); ":Midfill restart" starts it again, ":Midfill log" may say why'):format(
            signal ~= 0 and 'signal ' .. signal or 'exit code ' .. code
          )
        )
      end)
    end,
  }
end

---The client that serves a buffer.
---@param buf integer
---@return table|nil
function M.client(buf)
  return vim.lsp.get_clients({ bufnr = buf, name = 'midfill' })[1]
end

---Runs one of the server's commands.
---@param client table
---@param command table {command, arguments}
---@param done fun(result: any, sentence: string|nil)|nil
function M.run(client, command, done)
  local params = { command = command.command, arguments = command.arguments }
  requests.send(client, 'workspace/executeCommand', params, function(err, result)
    if done then
      done(result, err and err.message)
    end
  end, vim.api.nvim_get_current_buf())
end

---For a Neovim without `vim.lsp.enable` (0.10).
function M.start_by_filetype()
  local function start(buf)
    local config = M.config()
    local kinds = config.filetypes
    if vim.bo[buf].buftype ~= '' or (kinds and not vim.tbl_contains(kinds, vim.bo[buf].filetype)) then
      return
    end
    config.root_dir = vim.fs.root(buf, config.root_markers)
    vim.lsp.start(config, { bufnr = buf })
  end
  vim.api.nvim_create_autocmd({ 'FileType', 'BufReadPost', 'BufNewFile' }, {
    group = vim.api.nvim_create_augroup('midfill.start', { clear = true }),
    callback = function(event)
      start(event.buf)
    end,
  })
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buf) and vim.api.nvim_buf_get_name(buf) ~= '' then
      start(buf)
    end
  end
end

return M
