"""A case as its file gives it, and which parts of it are prose.

Owns the reading of case files. Refuses to run anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

BUNDLED = Path(__file__).with_name("public_reports.json")
HANG_S = 600.0  # ends a case that hangs, and nothing else: on a busy machine a case has taken thirty times as long as alone

# Input that says in words what the harness has to do.
_WORDS = ("load", "client", "engine", "variants", "then")


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NO_DRIVER = "no_driver"


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    kind: str
    input: Mapping[str, Any]
    expected: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Of the document: as printed, or by its rule."""
        document = self.input["document"]
        return str(eval(document["text_rule"], {})) if "text_rule" in document else str(document["text"])

    def limit_s(self, key: str) -> float:
        """A time limit in the case's expectation, times five. ValueError for one under a second: count something instead."""
        seconds = float(self.expected[key]) / (1000 if "_ms_" in key else 1)
        if seconds < 1:
            raise ValueError(f"{key} is under a second: count something instead")
        return 5 * seconds


def load(path: Path) -> list[Case]:
    """ValueError, in a sentence, if the file holds no list of cases."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} can't be read ({error.strerror})") from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error})") from error
    if not isinstance(entries, list):
        raise ValueError(f"{path} holds no list of cases")
    return [_case(entry, path) for entry in entries]


def _case(entry: Any, path: Path) -> Case:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise ValueError(f"{path} holds an entry without an id")
    return Case(entry["id"], str(entry.get("kind", "")), entry.get("input") or {}, entry.get("expected") or {})


def prose(case: Case, machine_keys: frozenset[str]) -> object:
    """What only a driver written for this very case can know the meaning of. machine_keys: expectations that no driver needs
    to understand."""
    setup = case.input.get("setup")
    return {
        "expected": _without_numbers({k: v for k, v in case.expected.items() if k not in machine_keys}),
        "words": {k: case.input[k] for k in _WORDS if k in case.input},
        "setup": setup if isinstance(setup, str) else _without_numbers(setup),
        "messages": [m for m in case.input.get("messages", ()) if isinstance(m, str)],
    }


def _without_numbers(value: object) -> object:
    if isinstance(value, Mapping):
        return {k: _without_numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_numbers(v) for v in value]
    return "a number" if isinstance(value, (int, float)) and not isinstance(value, bool) else value
