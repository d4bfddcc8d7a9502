"""The session that both systems are put through: each key with the text and the cursor that it leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

from bench.edits import apply, offset_at
from bench.material import Material
from bench.typist import Key, type_block


@dataclass(frozen=True, slots=True)
class Step:
    """text, offset: after the key, in code points. asks: VS Code asks for a completion after it (not after a cursor key).

    is_single_line: something other than blanks stands before the cursor on its line.
    """

    key: Key
    text: str
    offset: int
    asks: bool
    is_single_line: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """What the person does between a reply and the next key: pause_s after every one; after Enter, think up to think_s.

    Thinking ends early when the system has nothing left to do. A system that works ahead has its chance there, and pays for it
    in the session's tokens; without it a prompt of some thousand tokens would never become resident on a slow machine, and the
    whole block would be typed against the small prompt of the first key.
    """

    pause_s: float
    think_s: float


def write_script(material: Material, *, seed: int, n_keys: int = 0) -> tuple[Step, ...]:
    """The first n_keys keys of the block; 0 = all of it."""
    keys = type_block(material.text, material.block, material.offset, language=material.language, seed=seed)
    steps, text = [], material.text
    for key in keys[: n_keys or None]:
        text = apply(text, key.changes)
        offset = offset_at(text, key.cursor)
        line = text[text.rfind("\n", 0, offset) + 1 : offset]
        steps.append(Step(key, text, offset, bool(key.changes), bool(line.strip())))
    return tuple(steps)
