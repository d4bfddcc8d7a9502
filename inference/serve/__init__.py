"""The engine as a process of its own: an aiohttp application over any engine, and the sockets it listens on."""
