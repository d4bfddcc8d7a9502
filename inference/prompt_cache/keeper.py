"""What the engine's thread knows of saved prompts: putting them back, and saving them, each a module of its own."""

from __future__ import annotations

from collections.abc import Callable

from inference.backend import Backend
from inference.kv_cache import KvCache
from inference.prompt_cache.archive import Archive, Figures
from inference.prompt_cache.partner import Partner
from inference.prompt_cache.probe import Probe
from inference.prompt_cache.restorer import Restorer
from inference.prompt_cache.saver import Saver
from inference.threads import ThreadCount


class Keeper:
    """on_lost: the model's context has failed. clock: in seconds. threads: of the engine's steps."""

    def __init__(
        self,
        archive: Archive,
        kv: KvCache,
        backend: Backend,
        threads: ThreadCount,
        *,
        clock: Callable[[], float],
        save_every_s: float = 20.0,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._archive = archive
        probe = Probe(kv, backend, on_lost, threads.all_of_them)
        self.restorer = Restorer(archive, kv, probe, clock)
        self.saver = Saver(archive, kv, backend, probe, clock=clock, save_every_s=save_every_s, waits=lambda: threads.are_fewer)
        self._partner: Partner | None = None

    def join(self, partner: Partner, on_news: Callable[[], None]) -> None:
        """A draft model's states are saved and put back with the target's. on_news: called when something was read."""
        self._partner = partner
        partner.archive.listen(on_news)
        self.saver.on_save, self.restorer.on_fetch = partner.saved, partner.wanted

    def tend(self) -> bool:
        """Put back or save one state, if it is time; nobody waits. False: nothing was due."""
        return (self._partner is not None and self._partner.tend()) or self.saver.tend()

    def finish(self, limit_s: float) -> None:
        """Save what is worth it, as far as there is time; then nothing more."""
        self.saver.finish(limit_s)
        if self._partner is not None:
            self._partner.finish(max(limit_s, 0.1))

    @property
    def figures(self) -> Figures:
        return self._archive.figures()

    def wait_s(self) -> float | None:
        """How long there is nothing to do here, unless something happens."""
        times = (self.saver.wait_s(), self.restorer.wait_s())
        return min((t for t in times if t is not None), default=None)
