"""Which files are private. The only disk reads of the server room's editor side: `.midfillignore` files, never the user's code.

Owns the rules and how they combine: the setting `exclude` (its built-in names count without regard to case, for the file's
name alone; the user's own globs are gitignore lines, `!` lets a file in again), and `.midfillignore` files from the workspace
root down to the file's folder, which can only add. A link counts as what it points to as well. Refuses language ids.

A document that is no file of this disk (untitled, a notebook cell, on another machine) makes nobody look at the disk: its name
and the setting count, and the ignore files that are known already, those of the workspace folders among them.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pathspec import GitIgnoreSpec

from lsp_server.uris import is_on_disk, path_of

log = logging.getLogger(__name__)

IGNORE_FILE = ".midfillignore"
BY_SETTING = "it matches the setting exclude"
BY_FILE = f"it is listed in {IGNORE_FILE}"

# Names (gitignore lines without a slash) and folders (with one) that hold keys, passwords or certificates.
PRIVATE = (
    ".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.p8", "*.ppk", "*.jks", "*.keystore", "*.kdbx", "*.kdb",
    "*.crt", "*.cer", "*.der", "*.gpg", "*.age", "*.ovpn", "*.tfvars", "*.tfstate", "*.tfstate.*",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".npmrc", ".pypirc", ".netrc", "_netrc", ".pgpass", ".my.cnf",
    ".git-credentials", ".dockercfg", ".htpasswd", ".vault-pass*", ".secrets*",
    "credentials", "credentials.json", "credentials.y*ml", "credentials.toml", "credentials.xml", "credentials.db",
    "secrets", "secrets.json", "secrets.y*ml", "secrets.toml", "secrets.xml",
    ".ssh/", ".gnupg/", ".aws/",
)  # fmt: skip
_MOST_ANSWERS = 4096
_MOST_IGNORE_BYTES = 1024 * 1024
_UNREADABLE = GitIgnoreSpec.from_lines(())  # told by identity


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    stamp: tuple[int, int] | None  # mtime in ns, size; None: look again
    spec: GitIgnoreSpec


class Exclusion:
    """Answers `reason(doc_id)`. An answer is kept for memo_s seconds, so that typing costs no disk access."""

    def __init__(
        self,
        globs: Sequence[str] = PRIVATE,
        roots: Sequence[str] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        memo_s: float = 2.0,
    ) -> None:
        self._clock = clock
        self._memo_s = memo_s
        self._memo: dict[str, tuple[float, str]] = {}
        self._files: dict[str, _IgnoreFile] = {}
        self._told: set[str] = set()
        self.set_roots(roots)
        self.set_globs(globs)

    @property
    def roots(self) -> tuple[str, ...]:
        """Paths of the workspace folders, as they were given and with links resolved."""
        return self._roots

    @property
    def on_disk(self) -> tuple[str, ...]:
        """Those of the workspace folders that are paths of this machine's disk."""
        return self._on_disk

    def set_roots(self, roots: Sequence[str]) -> None:
        """The workspace folders: absolute paths, or document ids."""
        paths = {root: _slashes(path_of(root)).rstrip("/") for root in roots}
        here = [path for root, path in paths.items() if path and is_on_disk(root)]
        real = [_slashes(_real(path)).rstrip("/") for path in here]
        self._on_disk = tuple(dict.fromkeys((*here, *real)))
        self._roots = tuple(dict.fromkeys(path for path in (*paths.values(), *real) if path))
        self.forget()

    def set_globs(self, globs: Sequence[str]) -> tuple[str, ...]:
        """The setting; returns the globs that are none, which don't count."""
        private = [glob for glob in globs if glob in PRIVATE]
        self._names = GitIgnoreSpec.from_lines(glob for glob in private if "/" not in glob)
        self._folders = GitIgnoreSpec.from_lines(glob for glob in private if "/" in glob)
        self._own, bad = compile_lines([glob for glob in globs if glob not in PRIVATE])
        self._memo.clear()
        return bad

    def forget(self) -> None:
        """An ignore file has changed: look again."""
        self._memo.clear()
        for root in self._on_disk:
            for folder in _folders_of(f"{root}/"):
                self._spec(f"{folder}/{IGNORE_FILE}")

    def reason(self, doc_id: str) -> str:
        """Why this document may not be used, or "". Looks at paths and ignore files, never at the document."""
        now = self._clock()
        known = self._memo.get(doc_id)
        if known is not None and now < known[0] + self._memo_s:
            return known[1]
        reason = self._look(path_of(doc_id), is_on_disk(doc_id))
        if len(self._memo) >= _MOST_ANSWERS:
            self._memo.clear()  # of documents long gone, mostly
        self._memo[doc_id] = (now, reason)
        return reason

    def reason_now(self, path: str) -> str:
        """The same for the path of a file of this disk, not remembered: for who goes through all files."""
        return self._look(path, True)

    def _look(self, path: str, on_disk: bool) -> str:
        paths = [_slashes(path)]
        if on_disk and os.path.isabs(path) and (real := _slashes(_real(path))) not in paths:
            paths.append(real)
        if any(self._is_private(path) for path in paths):
            return BY_SETTING
        if any(os.path.isabs(path) and self._is_ignored(path, on_disk) for path in paths):
            return BY_FILE
        return ""

    def _is_private(self, path: str) -> bool:
        own = self._own.check_file(_below(path, self._root_of(path))).include
        if own is not None:  # the user's last word on this file, also to let it in
            return own
        low = path.lower()
        return self._names.match_file(low.rsplit("/", 1)[-1]) or self._folders.match_file(low.lstrip("/"))

    def _is_ignored(self, path: str, on_disk: bool) -> bool:
        """Ignore files of every folder above, from the top down; the deeper one has the last word, as with git. Those above the
        workspace count too: what somebody called private does not depend on which folder the editor opened."""
        verdict = False
        for folder in _folders_of(path):
            spec = (self._spec if on_disk else self._known)(f"{folder}/{IGNORE_FILE}")
            if spec is _UNREADABLE:
                return True  # nobody knows what it names: better nothing than what was meant to be private
            if spec is not None and (found := spec.check_file(_below(path, folder)).include) is not None:
                verdict = found
        return verdict

    def _root_of(self, path: str) -> str:
        """The outermost root above a path; "" if none: then every folder above it counts."""
        return min((root for root in self._roots if path.startswith(f"{root}/")), key=len, default="")

    def _known(self, path: str) -> GitIgnoreSpec | None:
        """What was in an ignore file when it was last looked at. Does not look."""
        known = self._files.get(path)
        return known.spec if known is not None else None

    def _spec(self, path: str) -> GitIgnoreSpec | None:
        try:
            status = os.stat(path)
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._files.get(path)
            if known is not None and known.stamp == stamp:
                return known.spec
            lines = _read_lines(path, status)
        except (FileNotFoundError, NotADirectoryError):
            self._files.pop(path, None)
            return None
        except (OSError, ValueError) as error:
            if path not in self._told:
                self._told.add(path)
                log.warning("%s can't be used (%s); nothing below its folder is completed", path, error)
            self._files[path] = _IgnoreFile(None, _UNREADABLE)
            return _UNREADABLE
        spec, bad = compile_lines(lines)
        if bad:
            numbers = ", ".join(str(n) for n, line in enumerate(lines, 1) if line in bad)
            log.warning("%s: no pattern in line %s; it excludes nothing", path, numbers)
        self._files[path] = _IgnoreFile(stamp, spec)
        return spec


def read_ignore_lines(path: str) -> list[str]:
    """The lines of an ignore file. Raises OSError or ValueError for what can't be taken whole."""
    return _read_lines(path, os.stat(path))


def _read_lines(path: str, status: os.stat_result) -> list[str]:
    """The lines of an ignore file. Raises OSError or ValueError for what can't be taken whole."""
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no regular file")
    if status.st_size > _MOST_IGNORE_BYTES:
        raise ValueError(f"it is larger than {_MOST_IGNORE_BYTES:,} bytes")
    with open(path, "rb") as file:
        data = file.read(_MOST_IGNORE_BYTES)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16").splitlines()
    return data.decode("utf-8-sig", "surrogateescape").splitlines()


def compile_lines(lines: Sequence[str]) -> tuple[GitIgnoreSpec, tuple[str, ...]]:
    """The lines that are gitignore patterns, and those that are not."""
    bad = tuple(line for line in lines if not _is_pattern(line))
    return GitIgnoreSpec.from_lines(line for line in lines if line not in bad), bad


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):  # a range such as [z-a] gets as far as the regular expression
        return False
    return True


def _folders_of(path: str) -> list[str]:
    """The folders above a path, from the top down."""
    folders = path.split("/")[:-1]
    return ["/".join(folders[:depth]) for depth in range(1, len(folders) + 1)]


def _below(path: str, folder: str) -> str:
    return path[len(folder) :].lstrip("/")


def _slashes(path: str) -> str:
    return path.replace(os.sep, "/")


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # a loop, or a NUL in the name
        return path
