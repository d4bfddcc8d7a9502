"""What the engine's thread knows of saved prompts: putting them back, and saving them, each a module of its own."""

from __future__ import annotations

from collections.abc import Callable

from inference.backend import Backend
from inference.kv_cache import KvCache
from inference.prompt_cache.archive import Archive, Figures
from inference.prompt_cache.probe import Probe
from inference.prompt_cache.restorer import Restorer
from inference.prompt_cache.saver import Saver


class Keeper:
    """on_lost: the model's context has failed. clock: in seconds."""

    def __init__(
        self,
        archive: Archive,
        kv: KvCache,
        backend: Backend,
        *,
        clock: Callable[[], float],
        save_every_s: float = 20.0,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._archive = archive
        probe = Probe(kv, backend, on_lost)
        self.restorer = Restorer(archive, kv, probe, clock)
        self.saver = Saver(archive, kv, backend, probe, clock=clock, save_every_s=save_every_s)

    @property
    def figures(self) -> Figures:
        return self._archive.figures()

    def wait_s(self) -> float | None:
        """How long there is nothing to do here, unless something happens."""
        times = (self.saver.wait_s(), self.restorer.wait_s())
        return min((t for t in times if t is not None), default=None)
