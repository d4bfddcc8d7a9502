"""The server room: LSP in, ghost text out. The only room that knows both context and inference."""
