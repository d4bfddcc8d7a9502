"""The clients. Python only where something of theirs is made from the server."""
