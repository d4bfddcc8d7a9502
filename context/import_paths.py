"""Imports that are written as a path with groups: `a::b::{c, d as e}`, `a.b.{C, D => E}`, `A\\B\\{C, D as E}`.

Owns how such a text becomes single names. Refuses anything a parser has not taken for an import before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Words in front of the path, in any language that has them; a path never begins with one of these and a blank.
_KEYWORD = re.compile(
    r"\s*(?:import|use|using|global|static|function|const|struct|class|enum|protocol|typealias|func|var|let|given|@\w+)\s+"
)
_TOKEN = re.compile(r"[{},]|[^{},]+")
_RENAMED = re.compile(r"\s+as\s+|\s*=>\s*|\s+as$")
_ALIAS_FIRST = re.compile(r"\s*(\w+)\s*=\s*")  # C#
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_EVERYTHING = frozenset({"*", "_", "given"})


def imported(text: str, separator: str) -> Iterator[tuple[str, str, str]]:
    """(module, name, alias) of each name that an import brings in. name: "" = the module itself, "*" = everything.

    The last part of a path is the name. A path of one part is a module.
    """
    text = _COMMENT.sub(" ", text).strip().rstrip(";")
    while (found := _KEYWORD.match(text)) is not None:
        text = text[found.end() :]
    alias = ""
    if (found := _ALIAS_FIRST.match(text)) is not None:
        alias, text = found[1], text[found.end() :]
    prefixes = [""]  # of the groups that are open, outermost first
    last = ""
    for token in _TOKEN.findall(text):
        if token == "{":
            prefixes.append(last)
            last = ""
        elif token in "},":
            if last:
                yield _named(last, separator, alias)
            last = ""
            if token == "}" and len(prefixes) > 1:
                prefixes.pop()
        elif part := _KEYWORD.sub("", token).strip():
            last = prefixes[-1] + part
    if last:
        yield _named(last, separator, alias)


def _named(path: str, separator: str, alias: str) -> tuple[str, str, str]:
    path, *renamed = _RENAMED.split(path, maxsplit=1)
    alias = renamed[0].strip() if renamed and renamed[0].strip() else alias
    # as many separators as it takes: a group's prefix ends with one
    parts = [part for part in re.split(re.escape(separator), re.sub(r"\s+", "", path)) if part]
    is_absolute = path.startswith(separator) and separator == "::"
    if not parts:
        return "", "*", ""
    lead = separator if is_absolute else ""
    if len(parts) == 1:
        return (lead + parts[0], "", alias) if parts[0] not in _EVERYTHING else ("", "*", "")
    module, name = lead + separator.join(parts[:-1]), parts[-1]
    if name in _EVERYTHING:
        return module, "*", ""
    return (module, "", alias) if name == "self" else (module, name, alias)
