-- `:Midfill …`: one function per sub-command.
local M = {}

---@param text string
---@param level integer|nil
local function say(text, level)
  require('midfill.tell').say(text, level or vim.log.levels.INFO)
end

---Lines in a window of their own, closed with q.
---@param title string
---@param lines string[]
local function page(title, lines)
  local buf = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(buf, 0, -1, false, lines)
  vim.bo[buf].bufhidden = 'wipe'
  vim.bo[buf].modifiable = false
  vim.api.nvim_buf_set_name(buf, 'midfill://' .. title .. '/' .. buf)
  vim.cmd('botright split')
  vim.api.nvim_win_set_buf(0, buf)
  vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buf })
end

---@param name string
---@param arguments any[]
---@param done fun(result: any)
local function ask(name, arguments, done)
  require('midfill').run({ command = name, arguments = arguments }, function(result, sentence)
    vim.schedule(function()
      if sentence then
        say('midfill: ' .. sentence, vim.log.levels.WARN)
      else
        done(result)
      end
    end)
  end)
end

---@param result any of midfill.restartEngine and midfill.selectModel
local function tell_ready(result)
  if type(result) ~= 'table' then
    return
  end
  if result.ready then
    say(('midfill: %s is ready'):format(result.model))
  else
    say('midfill: ' .. tostring(result.reason or 'it is not ready'), vim.log.levels.WARN)
  end
end

M.commands = {
  status = function()
    say(require('midfill.status').long(vim.api.nvim_get_current_buf()))
  end,
  explain = function()
    ask('midfill.explain', {}, function(result)
      page('explain', vim.split(vim.inspect(result), '\n'))
    end)
  end,
  pause = function(minutes)
    if minutes and not tonumber(minutes) then
      say('midfill: pause takes a number of minutes, or nothing: until resumed', vim.log.levels.WARN)
      return
    end
    ask('midfill.pause', { tonumber(minutes) }, function() end)
  end,
  resume = function()
    ask('midfill.pause', { 0 }, function() end)
  end,
  enable = function()
    require('midfill').enable(true)
  end,
  disable = function()
    require('midfill').enable(false)
  end,
  restart = function()
    require('midfill').restart()
  end,
  ['restart-engine'] = function()
    ask('midfill.restartEngine', {}, tell_ready)
  end,
  model = function(id)
    if id then
      ask('midfill.selectModel', { id }, tell_ready)
      return
    end
    ask('midfill.selectModel', {}, function(result)
      local present = vim.tbl_filter(function(model)
        return model.is_on_disk
      end, result.models)
      if #present == 0 then
        say('midfill: no model is on disk; `midfill models pull` fetches one', vim.log.levels.WARN)
        return
      end
      vim.ui.select(present, {
        prompt = 'Model (now: ' .. tostring(result.current) .. ')',
        format_item = function(model)
          return model.id .. '  ' .. model.name
        end,
      }, function(model)
        if model then
          ask('midfill.selectModel', { model.id }, tell_ready)
        end
      end)
    end)
  end,
  stats = function()
    ask('midfill.stats', {}, function(result)
      page('stats', vim.split(vim.inspect(result), '\n'))
    end)
  end,
  log = function()
    local path = vim.fn.has('nvim-0.11') == 1 and vim.lsp.log.get_filename() or vim.lsp.get_log_path()
    vim.cmd.tabedit(vim.fn.fnameescape(path))
  end,
}

---@param given table of |nvim_create_user_command()|
function M.run(given)
  local name, argument = given.fargs[1] or 'status', given.fargs[2]
  local command = M.commands[name]
  if not command then
    say(
      ('midfill: there is no :Midfill %s; there are %s'):format(name, table.concat(M.names(), ', ')),
      vim.log.levels.WARN
    )
    return
  end
  command(argument)
end

---@return string[]
function M.names()
  local names = vim.tbl_keys(M.commands)
  table.sort(names)
  return names
end

---@param lead string
---@return string[]
function M.complete(lead)
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, M.names())
end

return M
