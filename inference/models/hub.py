"""The source `hub`: the model hub, through its publisher's own package, if that is installed.

Owns that one call, made only when a model is fetched from there. Endpoint, proxies, certificates, token and offline mode are
those of the package's configuration. An interrupted download is gone on with by the package, in the directory FILE.hub.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inference.models import store
from inference.models.model import Model
from inference.models.source import FULL, Arrived, Free, free_bytes, require_space
from inference.models.store import OnProgress, Progress
from inference.types import EngineError

_POLL_S = 0.5


class Hub:
    """Fits `source.Source`."""

    name = "hub"

    def __init__(self, free: Free = free_bytes) -> None:
        self._free = free

    def fetch(self, model: Model, directory: Path, progress: OnProgress) -> Arrived:
        if not model.hub_repo:
            raise EngineError("it is not published there")
        try:
            import huggingface_hub
            from huggingface_hub.utils import disable_progress_bars
        except ImportError:
            raise EngineError("the package huggingface_hub is not installed (`pip install midfill[hub]` brings it)") from None
        disable_progress_bars()  # what is shown is for the caller to say
        work = store.hub_of(model, directory)
        require_space(model, directory, model.bytes - store.tree_bytes(work), self._free)
        with _watched(work, model.bytes, progress):
            try:
                path = Path(huggingface_hub.hf_hub_download(model.hub_repo, model.hub_file, local_dir=str(work)))
            except OSError as error:
                if error.errno in FULL:
                    raise
                raise _failure(model, error) from None
            except Exception as error:  # its own, and those of whatever it sends requests with
                raise _failure(model, error) from None
        return Arrived(path, store.digest(path, path.stat().st_size, progress))


def _failure(model: Model, error: Exception) -> EngineError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = re.sub(r"\s+", " ", lines[0]).partition(". ")[0] if lines else type(error).__name__
    said = said if len(said) <= 200 else said[:200] + "…"
    return EngineError(f"{model.hub_repo} could not be read ({said.rstrip('.')})")


@contextmanager
def _watched(work: Path, n_total: int, progress: OnProgress) -> Iterator[None]:
    """The growth of a directory is the progress, for as long as the block runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_S):
            progress(Progress("downloading", min(store.tree_bytes(work), n_total), n_total))

    watcher = threading.Thread(target=watch, name="hub-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
