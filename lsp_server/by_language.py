"""Settings that differ by language: a table of language ids, each with some of the settings that may.

Owns the table's form: pairs, so that it can be compared and hashed. Which settings may differ stands with them
(`by_language` in a field's metadata).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsp_server.config import ServerConfig

ByLanguage = tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


def names(settings: Any) -> dict[str, Field[Any]]:
    """The settings that may differ, by name. settings: the class, or an object of it."""
    return {one.name: one for one in fields(settings) if one.metadata.get("by_language")}


def read(
    value: object, known: Mapping[str, Field[Any]], check: Callable[[Field[Any], object], Any], wrong: type
) -> ByLanguage | str:
    """The table, or a sentence's end that says what it should have been. check: one setting's value, or a `wrong` with what is
    wanted."""
    wanted = f"a table of language ids, each with some of {', '.join(known)}"
    if not isinstance(value, Mapping):
        return wanted
    table: dict[str, dict[str, Any]] = {}
    for language, given in value.items():
        if not isinstance(given, Mapping):
            return wanted
        for key, one in given.items():
            name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower()
            if name not in known:
                return f"{wanted}; there is no {key!r} among them"
            checked = check(known[name], one)
            if isinstance(checked, wrong):
                return f"{wanted}; {language}.{name} must be {getattr(checked, 'wanted', 'another value')}"
            table.setdefault(str(language), {})[name] = checked
    return tuple((language, tuple(given.items())) for language, given in table.items())


@functools.lru_cache(maxsize=64)
def settings_for(server: ServerConfig, language: str) -> ServerConfig:
    """The settings as they are for a language."""
    return replace(server, **dict(next((given for each, given in server.by_language if each == language), ())))
