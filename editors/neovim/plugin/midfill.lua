if vim.g.loaded_midfill then
  return
end
vim.g.loaded_midfill = true

vim.api.nvim_set_hl(0, 'MidfillGhost', { default = true, link = vim.fn.hlexists('ComplHint') == 1 and 'ComplHint' or 'NonText' })
vim.api.nvim_set_hl(0, 'MidfillHint', { default = true, link = 'MoreMsg' })

vim.api.nvim_create_user_command('Midfill', function(given)
  require('midfill.commands').run(given)
end, {
  nargs = '*',
  desc = 'midfill: status, explain, pause, …',
  complete = function(lead)
    return require('midfill.commands').complete(lead)
  end,
})

for name, action in pairs({
  accept = 'accept',
  word = 'accept_word',
  line = 'accept_line',
  dismiss = 'dismiss',
  next = 'next',
  previous = 'previous',
  trigger = 'trigger',
}) do
  vim.keymap.set('i', ('<Plug>(midfill-%s)'):format(name), function()
    require('midfill')[action]()
  end, { desc = 'midfill: ' .. name })
end

local group = vim.api.nvim_create_augroup('midfill', { clear = true })
vim.api.nvim_create_autocmd('LspAttach', {
  group = group,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if client and client.name == 'midfill' then
      require('midfill').attach(event.buf, client)
    end
  end,
})
vim.api.nvim_create_autocmd('LspDetach', {
  group = group,
  callback = function(event)
    local client = vim.lsp.get_client_by_id(event.data.client_id)
    if client and client.name == 'midfill' then
      require('midfill').detach(event.buf)
    end
  end,
})
