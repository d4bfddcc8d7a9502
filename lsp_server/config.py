"""All settings, frozen, and how they are read.

Owns the server's own settings, the order of sources (file, then initializationOptions, then the editor's configuration; the
later one wins) and the checks. A wrong value never stops anything: it is reported in one
sentence and the value from the source before it stays. Refuses to act on settings.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from context.config import ContextConfig
from inference.config import EngineConfig
from lsp_server import by_language
from lsp_server.bounds import BOUNDS, WANTED, shown
from lsp_server.by_language import ByLanguage
from lsp_server.workspace import PRIVATE

FILE_NAME = "midfill.toml"
FILE_VARIABLE = "MIDFILL_CONFIG"
SECTION = "midfill"


def setting(default: Any, doc: str, *, live: bool = True, by_language: bool = False) -> Any:
    """A dataclass field with its documentation. live: a change applies without restart. by_language: it may differ by
    language."""
    return field(default=default, metadata={"doc": doc, "live": live, "by_language": by_language})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    enabled: bool = setting(True, "Whether to complete at all.")
    languages_off: tuple[str, ...] = setting((), "Language ids of the editor without completion, e.g. markdown.")
    exclude: tuple[str, ...] = setting(
        PRIVATE,
        "Private files, as gitignore lines: no completion, and their text is never kept. What you write here is added to the "
        "built-in list, whose names without a slash are those of files, not of folders; `!name` lets a file in "
        "again. A `.midfillignore` file in a folder adds more for what lies below it.",
    )
    max_tokens: int = setting(64, "Most tokens of a suggestion.")
    n_candidates: int = setting(
        3, "Most suggestions to choose from when you ask by hand; 1 = only one. What comes by itself is always one."
    )
    reply_deadline_ms: int = setting(400, "Latest answer to an automatic request with a warm prompt; 0 = no deadline.")
    adopt_ms: int = setting(60, "How long a cancelled or replaced generation waits for a request that agrees with it.")
    debounce_ms: int = setting(
        0,
        "Shortest wait before an automatic request reaches the model, for machines where every start costs.",
        by_language=True,
    )
    wait_ms: int = setting(
        150,
        "Longest wait before an automatic request reaches the model while you type; how long it is follows your rhythm and the "
        "place, less what the model is expected to take. 0 = none. What is known already, or asked by hand, never waits.",
        by_language=True,
    )
    back_off_ms: int = setting(
        1000,
        "Longest wait that is added where suggestions were rejected lately; it fades within minutes. 0 = none.",
        by_language=True,
    )
    after_delete: str = setting(
        "off", "Whether to ask the model by itself right after you deleted something.", by_language=True
    )
    inside_words: str = setting("off", "Whether to ask it by itself where a letter follows the cursor.", by_language=True)
    in_comments: str = setting("off", "Whether to ask it by itself in comments.", by_language=True)
    in_strings: str = setting(
        "auto", "The same in strings; auto: only in languages that consist of them, e.g. JSON, YAML, HTML.", by_language=True
    )
    by_language: ByLanguage = setting(  # noqa: RUF009
        (), 'Other values for some languages, by the editor\'s language ids: `[by_language.rust]`, then `in_comments = "on"`.'
    )
    typed_through: bool = setting(True, "Answer at once while you type what the last suggestion says.")
    result_cache_bytes: int = setting(
        4 * 1024 * 1024, "Memory for what was suggested before: where the text is the same again, it comes at once. 0 = none."
    )
    prefetch: bool = setting(True, "Prepare what follows a suggestion while you look at it, as far as `background` allows.")
    background: str = setting(
        "auto",
        "Prefill the next prompt in the background, so that the next key finds it warm: auto, unless the machine runs on its "
        "battery; on, also then; off, never. Without it prompts stay as small as cold_budget_ms allows.",
    )
    idle_ms: int = setting(700, "How long after the last edit or request in a document its next prompt is prefilled.")
    completion: bool = setting(
        False, "Answer `textDocument/completion` too, with the same text, for clients without inline completion.", live=False
    )
    index: bool = setting(
        True,
        "Keep an index of the workspace's own code (definitions, imports, names used) in the cache directory. What git "
        "ignores, private files, binary, generated and vendored ones never get into it; off: what was kept stays unused.",
    )
    index_file_bytes: int = setting(512 * 1024, "Longer files are not indexed.")
    max_file_bytes: int = setting(
        128 * 1024 * 1024, "Longer documents are not kept and get no completion; of others what is near the cursor counts."
    )


@dataclass(frozen=True, slots=True)
class Config:
    server: ServerConfig = field(default_factory=ServerConfig)
    context: ContextConfig = field(default_factory=ContextConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where settings come from, weakest first. options, client: JSON as the editor sent it, with or without the section's name.

    is_named: the file was asked for, so it has to be there.
    """

    file: Path | None = None
    is_named: bool = False
    options: object = None
    client: object = None


_ADDED = frozenset({"exclude"})  # lists that are added to the default instead of replacing it


def rooms(config: Config) -> Iterator[tuple[str, Any, Field[Any]]]:
    """(room, its settings, field) for every setting. Names are unique over all rooms."""
    for room in fields(config):
        part = getattr(config, room.name)
        for one in fields(part):
            if "doc" in one.metadata:
                yield room.name, part, one


def config_file(environment: Mapping[str, str] = os.environ) -> tuple[Path, bool]:
    """The settings file, and whether the environment names it."""
    if named := environment.get(FILE_VARIABLE, ""):
        return Path(named), True
    import platformdirs  # only needed here, and not at the command's every start

    return Path(platformdirs.user_config_dir(SECTION, appauthor=False)) / FILE_NAME, False


def default_sources() -> Sources:
    file, is_named = config_file()
    return Sources(file=file, is_named=is_named)


def load(sources: Sources) -> tuple[Config, tuple[str, ...]]:
    """The settings, and a sentence for everything that was wrong with them. Never raises."""
    config = Config()
    problems: list[str] = []
    tables: list[tuple[str, object]] = [
        (str(sources.file) if sources.is_named else FILE_NAME, _read(sources.file, sources.is_named, problems)),
        ("initializationOptions", _own_section(sources.options)),
        ("the editor's settings", _own_section(sources.client)),
    ]
    for name, table in tables:
        if table is None:
            continue
        if not isinstance(table, Mapping):
            problems.append(f"{name}: expected an object with settings")
            continue
        config = _merge(config, table, name, problems)
    return config, tuple(problems)


def diff(old: Config, new: Config) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the settings that differ: those that apply at once, and those that need a restart."""
    live: list[str] = []
    restart: list[str] = []
    for room, part, one in rooms(new):
        if getattr(part, one.name) != getattr(getattr(old, room), one.name):
            (live if one.metadata["live"] else restart).append(one.name)
    return tuple(live), tuple(restart)


def _read(file: Path | None, is_named: bool, problems: list[str]) -> object:
    if file is None:
        return None
    try:
        if file.is_fifo():  # reading would wait for a writer
            raise OSError(errno.EINVAL, "a pipe")
        data = file.read_bytes()
    except FileNotFoundError:
        if is_named:
            problems.append(f"{file}: there is no such file ({FILE_VARIABLE} names it)")
        return None
    except (OSError, ValueError) as error:
        problems.append(f"{file}: can't be read ({getattr(error, 'strerror', None) or type(error).__name__})")
        return None
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.append(f"{file}: line {line} is not UTF-8; the file was not used")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{file}: {error}; the file was not used")
    except (ValueError, RecursionError):  # a number of thousands of digits
        problems.append(f"{file}: nested too deeply, or a number too long; the file was not used")
    return None


def _own_section(value: object) -> object:
    """Editors send either {"midfill": {...}} or what is inside."""
    if isinstance(value, Mapping) and isinstance(value.get(SECTION), Mapping):
        return value[SECTION]
    return value


def _merge(config: Config, table: Mapping[Any, object], source: str, problems: list[str]) -> Config:
    known = {one.name: (room, part, one) for room, part, one in rooms(config)}
    changed: dict[str, dict[str, Any]] = {}
    for name, value in _flat(table, {room for room, _, _ in known.values()}, source, problems):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            problems.append(f"{source}: there is no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
            continue
        if value is None:  # editors send null for what is not set
            continue
        room, part, one = known[name]
        checked = _check(one, value)
        if isinstance(checked, _Wrong):
            kept = "the built-in list" if name in _ADDED else shown(getattr(part, name))
            problems.append(f"{source}: {name} must be {checked.wanted}; {kept} stays")
            continue
        changed.setdefault(room, {})[name] = checked
    if engine := changed.get("engine"):
        engine["explicit"] = config.engine.explicit.union(engine)
    parts = {room: replace(getattr(config, room), **values) for room, values in changed.items()}
    return replace(config, **parts)


def _flat(table: Mapping[Any, object], room_names: set[str], source: str, problems: list[str]) -> Iterator[tuple[str, object]]:
    """(name, value) of `name = 1`, `[room] name = 1` and `"room.name" = 1`; camelCase counts as snake_case."""
    for key, value in table.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(key)).lower()
        room, _, rest = name.rpartition(".")
        if room in room_names:
            yield rest, value
        elif name in room_names and isinstance(value, Mapping):
            yield from _flat(value, set(), source, problems)
        elif name in room_names:
            problems.append(f"{source}: {name} must be a table of settings")
        else:
            yield name, value


@dataclass(frozen=True, slots=True)
class _Wrong:
    wanted: str


def _check(one: Field[Any], value: object) -> Any:
    """The value as the setting's type, or what it should have been."""
    kind, bound = str(one.type), BOUNDS.get(one.name)
    wanted = _Wrong(WANTED[kind] + (f", {bound}" if bound else "")) if not (bound and bound.choices) else _Wrong(str(bound))
    if kind == "ByLanguage":
        read = by_language.read(value, by_language.names(ServerConfig), _check, _Wrong)
        return _Wrong(read) if isinstance(read, str) else read
    if kind == "tuple[str, ...]":
        if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
            return wanted
        added: tuple[str, ...] = one.default if one.name in _ADDED else ()  # type: ignore[assignment]
        return (*added, *value)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind == "int" and isinstance(value, float) and value.is_integer():  # some editors know only one kind of number
        value = int(value)
    if type(value).__name__ != kind or (bound is not None and not bound.has(value)):
        return wanted
    return value
