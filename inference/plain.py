"""Frozen dataclasses as plain JSON values, and back, by their type hints.

Owns the translation of fields: numbers, texts, enums (of texts or integers), tuples, mappings, dataclasses in dataclasses.
Strict about types and finite numbers, so that nothing odd gets behind the border; tolerant of fields it does not know, which a
newer version may add, and of missing ones that have a default.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")

_LARGEST = 1 << 63
_LONGEST_KEY = 20  # digits of a number that stands as a name


class PlainError(ValueError):
    """What is wrong with a value, as half a sentence that begins with its place."""


def shallow(value: object) -> Any:
    """One level of what JSON has no form for, as the `default` of an encoder: that one sees to all else, much faster."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"a {type(value).__name__} has no plain form")


def from_plain(kind: type[T], value: object, place: str) -> T:
    """`value` as a `kind`. PlainError: it is none. place: how the value is called in the sentence."""
    read: Read = _reader(kind)  # type: ignore[arg-type]  # classes are hashable
    return cast(T, read(value, place))


def integer(value: object, place: str) -> int:
    """An integer of at most 63 bits; true and 1.0 are none."""
    if type(value) is not int or not -_LARGEST < value < _LARGEST:
        raise PlainError(f"{place} is not an integer of at most 63 bits")
    return value


def number(value: object, place: str) -> float:
    """A finite number."""
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise PlainError(f"{place} is not a finite number")
    return value


def text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise PlainError(f"{place} is not a text")
    return value


def flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise PlainError(f"{place} is neither true nor false")
    return value


def table(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PlainError(f"{place} is not an object")
    return value


Read = Callable[[object, str], Any]
_SIMPLE: dict[Any, Read] = {int: integer, float: number, str: text, bool: flag, object: lambda value, _: value}


@cache
def _reader(kind: Any) -> Read:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _optional([argument for argument in arguments if argument is not types.NoneType], len(arguments))
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(arguments)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    if is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"{kind} has no plain form")


def _optional(others: list[Any], n: int) -> Read:
    if len(others) != 1 or n != 2:
        raise TypeError("of alternatives only `X | None` has a plain form")
    read = _reader(others[0])
    return lambda value, place: None if value is None else read(value, place)


def _tuple(arguments: tuple[Any, ...]) -> Read:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        read = _reader(arguments[0])
        return lambda value, place: tuple(read(item, place) for item in _list(value, place))
    reads = [_reader(argument) for argument in arguments]

    def fixed(value: object, place: str) -> Any:
        items = _list(value, place)
        if len(items) != len(reads):
            raise PlainError(f"{place} does not have {len(reads)} items")
        return tuple(one(item, place) for one, item in zip(reads, items, strict=True))

    return fixed


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise PlainError(f"{place} is not a list")
    return value


def _mapping(arguments: tuple[Any, ...]) -> Read:
    by_number, read = arguments[0] is int, _reader(arguments[1])

    def key(name: str, place: str) -> Any:
        if not by_number:
            return name
        if len(name) > _LONGEST_KEY or not name.removeprefix("-").isdecimal() or not name.isascii():
            raise PlainError(f"{place} has a name that is not an integer")
        return int(name)

    return lambda value, place: {key(name, place): read(item, place) for name, item in table(value, place).items()}


def _enum(kind: type[Enum]) -> Read:
    def member(value: object, place: str) -> Any:
        if isinstance(value, str | int) and not isinstance(value, bool):
            for one in kind:
                if one.value == value:
                    return one
        raise PlainError(f"{place} is none of {', '.join(str(one.value) for one in kind)}")

    return member


def _dataclass(kind: Any) -> Read:
    hints = typing.get_type_hints(kind)
    parts = [(f.name, _reader(hints[f.name]), f.default is MISSING and f.default_factory is MISSING) for f in fields(kind)]

    def whole(value: object, place: str) -> Any:
        given = table(value, place)
        found: dict[str, Any] = {}
        for name, read, is_required in parts:
            if name in given:
                found[name] = read(given[name], f"{place}.{name}")
            elif is_required:
                raise PlainError(f"{place}.{name} is missing")
        return kind(**found)

    return whole
