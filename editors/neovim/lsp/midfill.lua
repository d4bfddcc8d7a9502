-- For `vim.lsp.enable("midfill")` (0.11 and newer). `require("midfill").setup()` does that, and maps the keys.
return require('midfill.server').config()
