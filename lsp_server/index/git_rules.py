"""What git ignores: `.gitignore` files of every folder, `.git/info/exclude` and the user's own file, with git's precedence.

Owns reading them and how they combine. The rules count outside of a repository too: whoever writes a `.gitignore` means it. Git
itself is asked one thing, where the user's own file is (it may be configured in several places); without git the usual place
counts. Refuses to decide for a file whose folder is ignored: nothing below such a folder can be let in again.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lsp_server.workspace import compile_lines, read_ignore_lines

NAME = ".gitignore"
_GIT_S = 5.0
_FOLDERS = "(?P<ps_d>/)"  # what pathspec makes of `*/`


@dataclass(frozen=True, slots=True)
class Rule:
    """One line. pathspec's expressions also match what lies below the entry that is meant; git's last word is on an entry
    itself, so the match has to end with it. is_include: it is ignored; False for a line with `!`. is_below: it ends with
    `/**/`."""

    expression: re.Pattern[str]
    is_include: bool
    is_below: bool

    def has(self, path: str) -> bool:
        """path: from the folder of the rules on; a folder's ends with a slash."""
        if "ps_d" not in self.expression.groupindex:  # `*`, or what ends with `/**`: everything in a folder, but not the folder
            return self.expression.search(path.rstrip("/")) is not None
        if self.expression.pattern == _FOLDERS:
            return path.endswith("/")
        if self.is_below:  # folders in a folder, but not that one
            return path.endswith("/") and self.expression.search(path.rstrip("/")) is not None
        return self.expression.fullmatch(path) is not None


Rules = tuple[Rule, ...]  # the last line first


class GitRules:
    """For one workspace root (an absolute path). Answers for paths below it; every `.gitignore` is read once, so make a new one
    for every walk."""

    def __init__(self, root: str, environment: Mapping[str, str] = os.environ) -> None:
        self._root = root
        self._read: dict[str, Rules] = {}
        self._top = _top_of(root)
        base = self._top or root
        # weakest first, as git has it: the user's own, then the repository's, then the folders' from the top down
        self._general = [
            (base, _load(path)) for path in (_users_file(root, environment), _info_exclude(self._top)) if path is not None
        ]
        self._above = [(folder, self._rules_of(folder)) for folder in _between(base, root)]
        self._chains: dict[str, tuple[tuple[str, Rules], ...]] = {}

    def is_ignored(self, folder: str, name: str, is_folder: bool) -> bool:
        """An entry of a folder (relative to the root, "" the root itself) that is not ignored itself."""
        path = f"{self._root}/{folder}/{name}" if folder else f"{self._root}/{name}"
        if is_folder:
            path += "/"  # gitignore's patterns for folders look at it
        for base, rules in self._chain(folder):
            below = path[len(base) + 1 :]
            for rule in rules:
                if rule.has(below):
                    return rule.is_include
        return False

    def _chain(self, folder: str) -> tuple[tuple[str, Rules], ...]:
        """What counts in a folder, the strongest first; without what holds no pattern."""
        known = self._chains.get(folder)
        if known is None:
            parts = folder.split("/") if folder else []
            here = [self._root, *(f"{self._root}/{'/'.join(parts[:n])}" for n in range(1, len(parts) + 1))]
            weakest_first = [*self._general, *self._above, *((each, self._rules_of(each)) for each in here)]
            known = tuple((base, rules) for base, rules in reversed(weakest_first) if rules)
            self._chains[folder] = known
        return known

    def _rules_of(self, folder: str) -> Rules:
        rules = self._read.get(folder)
        if rules is None:
            rules = self._read[folder] = _load(f"{folder}/{NAME}")
        return rules


def _load(path: str) -> Rules:
    try:
        spec, _ = compile_lines(read_ignore_lines(path))
    except (OSError, ValueError):  # not there, or nothing that git would take either
        return ()
    return tuple(
        Rule(line.regex, line.include, str(line.pattern).rstrip().endswith("/**/"))
        for line in reversed(list(spec.patterns))
        if line.regex is not None and line.include is not None
    )


def _top_of(root: str) -> str:
    """The folder of the repository that a folder is in, "" if none. A submodule's own counts, as for git."""
    for folder in (Path(root), *Path(root).parents):
        if os.path.lexists(folder / ".git"):
            return folder.as_posix().rstrip("/")
    return ""


def _between(top: str, root: str) -> list[str]:
    """The folders from top to just above root."""
    folders = []
    folder = root
    while len(folder) > len(top):
        folder = folder.rsplit("/", 1)[0]
        folders.append(folder)
    return folders[::-1]


def _info_exclude(top: str) -> str | None:
    """In a linked worktree or a submodule `.git` is a file that names the directory; that may name the common one."""
    if not top:
        return None
    git = Path(top) / ".git"
    try:
        if git.is_file():
            named = git.read_text(encoding="utf-8", errors="surrogateescape").partition("gitdir:")[2].strip()
            git = Path(top, named)
        common = git / "commondir"
        if common.is_file():
            git = git / common.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except (OSError, ValueError):
        return None
    return str(git / "info" / "exclude")


def _users_file(root: str, environment: Mapping[str, str]) -> str | None:
    try:
        told = subprocess.run(
            ["git", "-C", root, "config", "--type=path", "--get", "core.excludesFile"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_GIT_S, check=False,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
        ).stdout  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError):
        told = b""
    if named := os.fsdecode(told).strip("\n"):
        return named
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "git", "ignore")
