"""The vocabulary of an engine elsewhere: from the model's own file if it is on this machine, or fetched once and kept.

Owns the directory of kept vocabularies and the proof that one is what the engine uses. Refuses what has another digest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import tempfile
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from inference.backend import Vocab
from inference.models.identity import ModelFile, cut_vocabulary, vocabulary_digest
from inference.types import EngineError
from inference.wire import Hello

log = logging.getLogger(__name__)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_ODD = re.compile(r"[^A-Za-z0-9._+-]")
_LONGEST_NAME = 120

Load = Callable[[Path], Vocab]


def load_native(path: Path) -> Vocab:
    """Blocking, under a second. EngineError."""
    from inference.llama.vocab import load_vocab  # native code: only where a vocabulary is needed

    return load_vocab(path)


class EarlyVocabulary:
    """The vocabulary of a file of this machine, loaded in a thread while the engine that is to use it starts. A failure is
    told to whoever takes it."""

    def __init__(self, model: ModelFile, load: Load = load_native) -> None:
        self.digest = model.vocab_digest
        pool = ThreadPoolExecutor(1, thread_name_prefix="vocabulary")
        self._loading = pool.submit(load, model.path)
        pool.shutdown(wait=False)

    async def take(self) -> Vocab:
        """EngineError."""
        return await asyncio.wrap_future(self._loading)


async def obtain(
    hello: Hello,
    fetch: Callable[[], Awaitable[bytes]],
    cache_dir: Path,
    load: Load = load_native,
    early: EarlyVocabulary | None = None,
) -> Vocab:
    """The vocabulary that the engine's token ids belong to. fetch: its GGUF from the engine. early: one that may be it.
    EngineError."""
    if not _DIGEST.fullmatch(hello.vocab_digest):
        raise EngineError("The engine names no digest of its vocabulary; restart it.")
    if early is not None and early.digest == hello.vocab_digest:
        return await early.take()
    local = Path(hello.model_path)
    if await asyncio.to_thread(_is_of, local, hello.vocab_digest):
        return await asyncio.to_thread(load, local)
    path = cache_dir / "vocabularies" / hello.vocab_digest / file_name(hello.model_path)
    if await asyncio.to_thread(_is_intact, path, hello.vocab_digest):
        return await asyncio.to_thread(load, path)
    data = await fetch()
    if await asyncio.to_thread(vocabulary_digest, data) != hello.vocab_digest:
        raise EngineError("The engine sent another vocabulary than it uses; restart it.")
    return await asyncio.to_thread(_keep_and_load, path, data, load)


def file_name(model_path: str) -> str:
    """The name under which it is kept. A model's family is recognized by that too, so it stays as far as it is harmless."""
    name = _ODD.sub("_", re.split(r"[/\\]", model_path)[-1]).lstrip(".")[-_LONGEST_NAME:]
    return name if name.endswith(".gguf") else f"{name or 'model'}.gguf"


def _is_of(path: Path, digest: str) -> bool:
    """Whether the file is a GGUF with that vocabulary."""
    try:
        return path.is_file() and vocabulary_digest(cut_vocabulary(path)) == digest
    except (EngineError, OSError, ValueError):
        return False


def _is_intact(path: Path, digest: str) -> bool:
    try:
        return vocabulary_digest(path.read_bytes()) == digest
    except OSError:
        return False


def _keep_and_load(path: Path, data: bytes, load: Load) -> Vocab:
    temporary = Path()
    try:
        for directory in (path.parent.parent.parent, path.parent.parent, path.parent):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")  # mode 0600
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if temporary.name:
            temporary.unlink(missing_ok=True)
        log.warning("the vocabulary can't be kept (%s); it will be fetched again", (error.strerror or "error").lower())
        return _load_once(path.name, data, load)
    return load(path)


def _load_once(name: str, data: bytes, load: Load) -> Vocab:
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            path = Path(directory, name)
            path.write_bytes(data)
            return load(path)
    except OSError as error:
        raise EngineError(f"The vocabulary can't be written to disk ({(error.strerror or 'error').lower()}).") from None
