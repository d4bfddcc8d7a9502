"""A scene with a workspace folder that is really there, indexed by the real process.

Owns the folders: made for one scene, and gone with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.cases.scene import Scene
from tests.cases.scripted import Model


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@asynccontextmanager
async def workspace(files: Mapping[str, str], model: Model | None = None, **options: Any) -> AsyncIterator[tuple[Scene, Path]]:
    """The scene, and the workspace's folder. Ends when the process that fills the index has ended."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        root = home / "ws"
        root.mkdir()
        write(root, files)
        places = {"XDG_CACHE_HOME": str(home / "cache"), "XDG_DATA_HOME": str(home / "data")}
        with mock.patch.dict(os.environ, places):
            scene = Scene(model, {"index": True, **options}, root=root.as_uri())
            async with scene:
                await scene.app.index.settled()
                roots = scene.app.index._roots
                yield scene, root
            # the process may still have a file to finish, and the folder is not to go before it
            for thread in [t for each in roots for t in (each._keeper._thread, each._supervisor._thread)]:
                await asyncio.to_thread(thread.join)


def cache_of(root: Path) -> Path:
    return root.parent / "cache"


def kept_in(folder: Path) -> dict[Path, bytes]:
    """What lies in its files, and in those below. A database's companions come and go meanwhile."""
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found


async def until(holds: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """The runner ends what hangs. What is to be found is always waited for: a question that meets a write finds nothing."""
    while not await holds():
        await asyncio.sleep(0.02)


async def paths_of(scene: Scene, name: str) -> list[str]:
    """Of the files that define it."""
    return [each.path for each in await scene.app.index.definitions_of(name)]


async def is_equal_to_disk(scene: Scene, root: Path, pattern: str = "*.py") -> bool:
    """Nothing is left to do, and each such file is known and no other."""
    (counts,) = (await scene.app.index.counts()).values()
    wanted = sum(1 for path in root.rglob(pattern) if path.is_file())
    return counts == {"parsed": wanted, "skipped": 0, "failed": 0, "pending": 0}
