"""Which files of a workspace count, and walking over them.

Owns the rules together: git's ignore files, private files (`workspace.Exclusion`), vendored, generated and binary ones, sizes.
Links are not followed: what one points to is found where it lies, or is not of this workspace; so no loop is walked. Names that
are no UTF-8 have no row, and are passed over. Paths are relative to the root, with slashes; "" is the root. Nothing here raises
for what the disk does: what can't be listed is not there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from context.languages import language_of
from lsp_server.index import git_rules, kinds, projects
from lsp_server.index.git_rules import GitRules
from lsp_server.workspace import IGNORE_FILE, Exclusion

RULE_FILES = frozenset({git_rules.NAME, IGNORE_FILE})  # a change of one changes what counts below its folder


@dataclass(frozen=True, slots=True)
class Folder:
    """One whose files count. path: relative to the root."""

    path: str


@dataclass(frozen=True, slots=True)
class Found:
    """A file that counts as far as its name and size tell."""

    path: str
    mtime_ns: int
    size: int


@dataclass(frozen=True, slots=True)
class _Listing:
    folders: tuple[os.DirEntry[str], ...] = ()
    files: tuple[os.DirEntry[str], ...] = ()
    names: frozenset[str] = frozenset()  # in lower case


_NOTHING = _Listing()


class Files:
    """One look at a workspace: ignore files are read once, so make a new one for every walk. root: absolute, with links
    resolved. max_bytes: longer files don't count."""

    def __init__(self, root: str, exclusion: Exclusion, max_bytes: int) -> None:
        self.root = root
        self._exclusion = exclusion
        self._max_bytes = max_bytes
        self._git = GitRules(root)
        self._counted: dict[str, bool] = {"": True}

    def walk(self, start: str = "") -> Iterator[Folder | Found]:
        """All folders and files from start on that count, each folder before what is in it, in the order of their names.
        Lazily: nothing is looked at before it is asked for. Nothing, if start itself does not count."""
        if not self.folder_counts(start):
            return
        seen: set[tuple[int, int]] = set()
        waiting = [start]
        while waiting:
            folder = waiting.pop()
            identity = self._identity(folder)
            if identity is None or identity in seen:  # gone, or mounted a second time
                continue
            seen.add(identity)
            listing = self._list(folder)
            yield Folder(folder)
            for entry in listing.files:
                found = self._found(folder, entry)
                if found is not None:
                    yield found
            below = [entry.name for entry in listing.folders if self._is_walked(folder, entry.name, listing.names)]
            waiting.extend(_joined(folder, name) for name in reversed(below))

    def file_counts(self, path: str) -> bool:
        """Whether a file counts, as far as its path tells: its folders, its name, the rules."""
        folder, _, name = path.rpartition("/")
        return self.folder_counts(folder) and self._name_counts(folder, name)

    def folder_counts(self, path: str) -> bool:
        known = self._counted.get(path)
        if known is None:
            above, _, name = path.rpartition("/")
            known = self.folder_counts(above) and self._is_walked(above, name, self._list(above).names)
            self._counted[path] = known
        return known

    def absolute(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _is_walked(self, above: str, name: str, beside: frozenset[str]) -> bool:
        if not _is_text(name) or self._git.is_ignored(above, name, True):
            return False
        path = _joined(above, name)
        return self._identity(path) is not None and not kinds.is_vendored(name, beside, self._list(path).names)

    def _identity(self, folder: str) -> tuple[int, int] | None:
        """None: no folder, or a link."""
        try:
            status = os.lstat(self.absolute(folder))
        except (OSError, ValueError):
            return None
        return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None

    def _list(self, folder: str) -> _Listing:
        folders, files, names = [], [], set()
        try:
            with os.scandir(self.absolute(folder)) as entries:
                for entry in entries:
                    names.add(entry.name.lower())
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(entry)
        except (OSError, ValueError):
            return _NOTHING
        return _Listing(tuple(sorted(folders, key=_name)), tuple(sorted(files, key=_name)), frozenset(names))

    def _found(self, folder: str, entry: os.DirEntry[str]) -> Found | None:
        if not self._name_counts(folder, entry.name):
            return None
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return None
        if status.st_size > self._max_bytes:
            return None
        return Found(_joined(folder, entry.name), status.st_mtime_ns, status.st_size)

    def _name_counts(self, folder: str, name: str) -> bool:
        if not _is_text(name) or kinds.by_name(name):
            return False
        if "." in name and not language_of(name) and name not in projects.NAMES:
            return False  # a name without an ending may be a script's: its first line tells
        if self._git.is_ignored(folder, name, False):
            return False
        return not self._exclusion.reason_now(self.absolute(_joined(folder, name)))


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_text(name: str) -> bool:
    return name.isprintable() and not any("\ud800" <= character <= "\udfff" for character in name)
