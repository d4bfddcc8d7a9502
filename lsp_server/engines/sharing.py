"""One engine for all connections of a process: loaded for the first that asks, with that one's settings, and kept until the
process ends.

Owns the loaded client. A load that fails is nobody's: the next connection tries again. Refuses to reload for other settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields

from inference.clients.base import EngineClient
from inference.config import EngineConfig


class SharedEngine:
    """open_client: as `lsp_server.app.OpenClient`."""

    def __init__(self, open_client: Callable[[EngineConfig, Callable[[float], None]], EngineClient]) -> None:
        self._open_client = open_client
        self._loading = threading.Lock()
        self._listeners: list[Callable[[float], None]] = []
        self._client: EngineClient | None = None
        self._config = EngineConfig()

    def open(
        self, config: EngineConfig, on_progress: Callable[[float], None], on_other: Callable[[tuple[str, ...]], None]
    ) -> EngineClient:
        """The client, when it is loaded; blocking, in any thread. Raises what the load raises.

        on_other: told the names of settings that the engine was loaded with other values for.
        """
        self._listeners.append(on_progress)
        try:
            with self._loading:
                if self._client is None:
                    self._client, self._config = self._open_client(config, self._tell), config
        finally:
            self._listeners.remove(on_progress)
        other = tuple(one.name for one in fields(config) if getattr(config, one.name) != getattr(self._config, one.name))
        if other:
            on_other(other)
        return self._client

    def _tell(self, share: float) -> None:
        for listener in list(self._listeners):
            listener(share)

    async def aclose(self) -> None:
        """End the engine. A load under way is left behind: whoever closes ends the process."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
