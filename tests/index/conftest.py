"""A workspace on the disk, and its store in this process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from context.symbols import symbols_of
from lsp_server.index import place, schema
from lsp_server.index.filling import Filling, Surroundings
from lsp_server.index.place import Place
from lsp_server.index.reader import Reader
from lsp_server.index.reading import Guard, Parse
from lsp_server.index.rows import Urgency, What
from lsp_server.index.store import Store
from lsp_server.workspace import PRIVATE, Exclusion


def write(root: Path, **files: str) -> None:
    """Keys are paths with `__` for a slash and `_dot_` for a dot."""
    write_all(root, {name.replace("__", "/").replace("_dot_", "."): text for name, text in files.items()})


def write_all(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@dataclass
class House:
    """One workspace and its store. parse: instead of the real parser. globs: of the setting exclude."""

    root: Path
    cache: Path
    parse: Parse = symbols_of
    globs: tuple[str, ...] = PRIVATE
    max_bytes: int = 100_000
    is_busy: Callable[[], bool] = lambda: False
    is_wanted: Callable[[], bool] = lambda: True
    told: list[tuple[int, int]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return place.place_of(self.cache, str(self.root))

    def reader(self) -> Reader:
        return Reader(self.place, str(self.root))

    def open(self) -> Store:
        place.make_private(self.place.directory)
        return Store(schema.create_or_open(self.place))

    def filling(self, store: Store) -> Filling:
        around = Surroundings(
            lambda: self.is_wanted(),
            lambda: self.is_busy(),
            lambda done, left: self.told.append((done, left)),
            sleep=self.slept.append,
        )
        exclusion = Exclusion(self.globs, [str(self.root)], memo_s=0.0)
        return Filling(str(self.root), exclusion, self.max_bytes, "r", store, Guard(self.place.at), around, self.parse)

    def fill(self, *changed: str, scan: bool | None = None) -> None:
        """What a process does: with changed paths, or with a look at everything."""
        store = self.open()
        try:
            if changed:
                store.pend([(path, What.FILE) for path in changed], Urgency.CHANGED)
            filling = self.filling(store)
            filling.begin(scan=not changed if scan is None else scan)
            filling.work()
        finally:
            store.close()

    def known(self) -> set[str]:
        """Paths of files with symbols."""
        store = self.open()
        try:
            rows = store._db.execute("SELECT path FROM files WHERE state = 0")
            return {path for (path,) in rows}
        finally:
            store.close()

    def bytes(self) -> bytes:
        """All that is on disk of the store."""
        return b"".join(path.read_bytes() for path in self.place.directory.iterdir() if path.is_file())


@pytest.fixture(autouse=True)
def no_git_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {"HOME": home, "XDG_CONFIG_HOME": home / ".config", "GIT_CONFIG_NOSYSTEM": 1}.items():
        monkeypatch.setenv(name, str(value))
    yield


@pytest.fixture
def house(tmp_path: Path) -> House:
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    return House(root, tmp_path.resolve() / "cache")


def git(root: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout
