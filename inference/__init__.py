"""The inference room: token prompts in, tokens out, computing nothing twice. Knows no editor and no syntax."""
