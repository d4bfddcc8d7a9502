"""The table `options.toml`: what the option names of the cases are here."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TABLE = tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))

KINDS = frozenset(_TABLE["kinds"]["taken"])
IDS = frozenset(_TABLE["kinds"]["taken_ids"])
GROUPS = ("setup", "config", "model")


def is_taken(case_id: str, kind: str) -> bool:
    """Whether the product has taken on the kind, or this case of it."""
    return kind in KINDS or case_id in IDS


def named(case_input: Mapping[str, Any]) -> dict[str, Any]:
    """Options of all groups by name. ValueError for a group that is told in words."""
    options: dict[str, Any] = {}
    for group in GROUPS:
        given = case_input.get(group, {})
        if not isinstance(given, Mapping):
            raise ValueError(f"{group} is told in words")
        options.update(given)
    return options


def unknown(case_input: Mapping[str, Any]) -> str:
    """The first option that the table does not know, or can't be here; "" if there is none."""
    for name, value in named(case_input).items():
        if name not in _TABLE["settings"] and name not in _TABLE["harness"]:
            return name
        if name in _TABLE["choices"] and value not in _TABLE["choices"][name]:
            return f"{name} {value}"
    return ""


def settings(case_input: Mapping[str, Any]) -> dict[str, Any]:
    """initializationOptions for a case. Options told in words are the driver's business."""
    given: dict[str, Any] = {}
    for group in GROUPS:
        options = case_input.get(group)
        if isinstance(options, Mapping):
            given.update({_TABLE["settings"][name]: v for name, v in options.items() if name in _TABLE["settings"]})
    return {**_TABLE["always"], **given}
