"""How pieces of other files stand in a prompt: as comments in the language of the file, or as files of their own.

Owns comment marks by language and the text that comes of pieces. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COMMENTS, FILES = "comments", "files"
_SLASHES = (
    "typescript typescriptreact javascript javascriptreact go rust java c cpp csharp php kotlin swift scala zig jsonc dart "
    "groovy objective-c objective-cpp fsharp less scss proto"
)
_HASHES = "python ruby shellscript yaml toml perl r julia elixir makefile dockerfile cmake powershell nix coffeescript"
_DASHES = "lua sql haskell ada elm"
_OTHER = {"latex": "%", "tex": "%", "erlang": "%", "clojure": ";;", "lisp": ";;", "scheme": ";;", "ini": ";", "vim": '"'}
_LINE = {
    **dict.fromkeys(_SLASHES.split(), "//"),
    **dict.fromkeys(_HASHES.split(), "#"),
    **dict.fromkeys(_DASHES.split(), "--"),
    **_OTHER,
}
_BLOCK = {
    "html": ("<!--", "-->"),
    "markdown": ("<!--", "-->"),
    "xml": ("<!--", "-->"),
    "vue": ("<!--", "-->"),
    "svelte": ("<!--", "-->"),
    "css": ("/*", "*/"),
}


@dataclass(frozen=True, slots=True)
class Wrapping:
    """placement: COMMENTS or FILES. mark: of a line comment; opener, closer: of a block comment where there is no line
    comment."""

    placement: str
    mark: str = ""
    opener: str = ""
    closer: str = ""

    def text(self, path: str, lines: Sequence[str]) -> bytes:
        """Pieces of one file. Ends with a line end."""
        if self.placement == FILES:
            rows = list(lines)
        elif self.mark:
            rows = [f"{self.mark} {line}".rstrip() for line in (path, *lines)]
        else:
            # what would end the comment is spelt apart
            rows = [self.opener, path, *(line.replace(self.closer, f"{self.closer[0]} {self.closer[1:]}") for line in lines)]
            rows.append(self.closer)
        return ("\n".join(rows) + "\n").encode("utf-8", "replace")


def wrapping(placement: str, language: str) -> Wrapping | None:
    """None: a file in this language can't hold them (JSON has no comments), or nobody knows how."""
    if placement == FILES:
        return Wrapping(FILES)
    if language in _LINE:
        return Wrapping(COMMENTS, _LINE[language])
    if language in _BLOCK:
        return Wrapping(COMMENTS, "", *_BLOCK[language])
    return None
