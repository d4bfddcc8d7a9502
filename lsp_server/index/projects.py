"""What a workspace's project files say of where modules lie: go.mod, Cargo.toml, package.json, tsconfig.json, pyproject.toml.

Owns how these few facts are read and stored, as (kind, folder, value), and how they become `context.imports.Roots`. Pure. A
file that can't be read as what its name says has no facts.
"""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from context.import_roots import Roots, ScriptPaths

Fact = tuple[str, str, str]

_GO, _CRATE, _PACKAGE, _SCRIPT, _SOURCE = "go", "crate", "package", "script", "source"
_MOST_FACTS = 200  # of one file
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.S)
_GO_MODULE = re.compile(r'^\s*module\s+"?([^\s"]+)', re.M)


def facts_of(path: str, data: bytes) -> tuple[Fact, ...]:
    """path: of the file, relative to the root."""
    folder, _, name = path.rpartition("/")
    read = _READERS.get(name)
    if read is None:
        return ()
    try:
        facts = list(read(folder, data.decode("utf-8-sig", "replace")))
    except (ValueError, RecursionError, AttributeError, TypeError):  # another file by that name, or a broken one
        return ()
    return tuple(facts[:_MOST_FACTS])


def roots_of(facts: Iterable[Fact]) -> Roots:
    known: dict[str, list[tuple[str, str]]] = {kind: [] for kind in (_GO, _CRATE, _PACKAGE, _SCRIPT, _SOURCE)}
    for kind, folder, value in facts:
        known.setdefault(kind, []).append((folder, value))
    return Roots(
        sources=tuple(folder for folder, _ in known[_SOURCE]),
        scripts=tuple(_script_paths(folder, value) for folder, value in known[_SCRIPT]),
        go_modules=tuple(known[_GO]),
        crates=tuple((name, folder) for folder, name in known[_CRATE]),
        packages=tuple((name, folder) for folder, name in known[_PACKAGE]),
    )


def _go_module(folder: str, text: str) -> Iterator[Fact]:
    found = _GO_MODULE.search(text)
    if found is not None:
        yield _GO, folder, found[1]


def _cargo(folder: str, text: str) -> Iterator[Fact]:
    name = tomllib.loads(text).get("package", {}).get("name")
    if isinstance(name, str):
        yield _CRATE, folder, name


def _package(folder: str, text: str) -> Iterator[Fact]:
    name = json.loads(text).get("name")
    if isinstance(name, str) and name:
        yield _PACKAGE, folder, name


def _script_config(folder: str, text: str) -> Iterator[Fact]:
    """What it `extends` lies elsewhere, and is a fact of that file."""
    options = _jsonc(text).get("compilerOptions", {})
    base, paths = options.get("baseUrl"), options.get("paths", {})
    told = {
        "base": _normal(folder, base) if isinstance(base, str) else None,
        "paths": [[key, [each for each in value if isinstance(each, str)]] for key, value in paths.items()],
    }
    if told["base"] is not None or told["paths"]:
        yield _SCRIPT, folder, json.dumps(told)


def _script_paths(folder: str, value: str) -> ScriptPaths:
    told = json.loads(value)
    return ScriptPaths(folder, told["base"], tuple((key, tuple(targets)) for key, targets in told["paths"]))


def _pyproject(folder: str, text: str) -> Iterator[Fact]:
    """Folders that absolute imports begin in, as the usual builders are told of them."""
    tool = tomllib.loads(text).get("tool", {})
    setuptools = tool.get("setuptools", {})
    pytest = tool.get("pytest", {}).get("ini_options", {})
    named: list[object] = [setuptools.get("package-dir", {}).get(""), *pytest.get("pythonpath", [])]
    packages = setuptools.get("packages")
    if isinstance(packages, dict):
        named += packages.get("find", {}).get("where", [])
    named += [each.get("from") for each in tool.get("poetry", {}).get("packages", []) if isinstance(each, dict)]
    for each in named:
        if isinstance(each, str) and (place := _normal(folder, each)) is not None:
            yield _SOURCE, place, ""


def _normal(folder: str, path: str) -> str | None:
    """A workspace path; None if it leads out of the workspace."""
    whole = posixpath.normpath(posixpath.join(folder, path))
    return None if whole.startswith(("..", "/")) else "" if whole == "." else whole


def _jsonc(text: str) -> Any:
    """JSON with comments and a comma too many."""
    bare = _STRING_OR_COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", bare))


_READERS: dict[str, Callable[[str, str], Iterator[Fact]]] = {
    "go.mod": _go_module,
    "Cargo.toml": _cargo,
    "package.json": _package,
    "tsconfig.json": _script_config,
    "jsconfig.json": _script_config,
    "pyproject.toml": _pyproject,
}
NAMES = frozenset(_READERS)
