"""What the bench of drafts lets a model write: places in code, always the same ones.

Owns three kinds of places: new code; the same edit once more, where it was made several times before; and a suggestion that
changes a little because the text before it did. All of it from the code in `material` and from a template here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.material import load

NEW, REPEATED, CHANGED = "new_code", "repeated_edits", "changed_suggestion"


@dataclass(frozen=True, slots=True)
class Place:
    """before, after: the text on both sides of the cursor. earlier: the text before the cursor when something was suggested
    here that may be so again; "" = nothing was. n_max: tokens to be written, at most. like: text that has as many tokens as may
    be written; "" = n_max alone counts."""

    before: str
    after: str
    n_max: int
    earlier: str = ""
    like: str = ""


_MORE = 3
_BEFORE, _AFTER = 40, 20  # lines around new code
_FIELDS = (
    ("order", "number", "str"), ("order", "customer", "Customer"), ("order", "total", "Decimal"), ("order", "due", "date"),
    ("order", "weight", "float"), ("order", "address", "Address"), ("order", "paid", "bool"), ("order", "tax", "Decimal"),
    ("order", "carrier", "Carrier"), ("order", "discount", "Decimal"), ("order", "note", "str"),
)  # fmt: skip
_PLAIN = "def {thing}_{field}(self, {thing}_id: int) -> {kind}:\n    return self._{thing}s[{thing}_id].{field}\n\n\n"
_EDITED = """def {thing}_{field}(self, {thing}_id: int) -> {kind}:
    try:
        {thing} = self._{thing}s[{thing}_id]
    except KeyError as error:
        logger.warning("no {thing} of id %d was found", {thing}_id)
        raise Missing("{thing}", {thing}_id) from error
    self._metrics.count("{thing}.read", field="{field}")
    return {thing}.{field}


"""


def tasks(n_tokens: int, n_places: int) -> dict[str, tuple[Place, ...]]:
    """n_tokens: most that are written at each place. n_places: of each task, at most; of repeated edits some more, which are
    short."""
    made = {NEW: _new(n_tokens), REPEATED: _repeated(n_tokens), CHANGED: _changed(n_tokens)}
    return {name: tuple(places)[: n_places + (_MORE if name == REPEATED else 0)] for name, places in made.items()}


def _new(n_tokens: int) -> Iterator[Place]:
    """Bodies of functions and methods, taken out, in the order of the files."""
    for name in ("inventory.py", "router.py"):
        lines = _whole(name).splitlines(keepends=True)
        heads = [i for i, line in enumerate(lines) if line.lstrip().startswith("def ") and line.rstrip().endswith(":")]
        for head in heads[2::3]:
            indent = len(lines[head]) - len(lines[head].lstrip())
            end = next(
                (
                    i
                    for i in range(head + 1, len(lines))
                    if lines[i].strip() and len(lines[i]) - len(lines[i].lstrip()) <= indent
                ),
                len(lines),
            )
            if end - head >= 4:
                yield Place("".join(lines[max(0, head - _BEFORE) : head + 1]), "".join(lines[end : end + _AFTER]), n_tokens)


def _repeated(n_tokens: int) -> Iterator[Place]:
    """Several functions were edited in the same way, and the edit of the next one has been begun: its first line is there. A
    small model that sees no more than the head writes what the functions behind it look like, which are not edited yet."""
    for done in range(2, len(_FIELDS) - 1):
        edited = [_filled(_EDITED, i) for i in range(done)]
        plain = [_filled(_PLAIN, i) for i in range(done + 1, len(_FIELDS))]
        lines = _filled(_EDITED, done).rstrip("\n").split("\n")
        begun, rest = "\n".join(lines[:2]) + "\n", "\n".join(lines[2:])
        yield Place("".join(edited) + begun, "\n\n\n" + "".join(plain), n_tokens, like=rest)


def _changed(n_tokens: int) -> Iterator[Place]:
    """A name in the lines above is changed after something was suggested."""
    for place in _new(n_tokens):
        lines = place.before.splitlines(keepends=True)
        found = [i for i, line in enumerate(lines[:-1]) if "self." in line or "return " in line]
        if found:
            i = found[-1]
            changed = lines[i].replace("return ", "return +").replace("self.", "self._")
            yield Place("".join([*lines[:i], changed, *lines[i + 1 :]]), place.after, n_tokens, earlier=place.before)


def _whole(name: str) -> str:
    material = load(name)
    return material.text[: material.offset] + material.block + material.text[material.offset :]


def _filled(template: str, i: int) -> str:
    thing, field, kind = _FIELDS[i]
    return template.format(thing=thing, field=field, kind=kind)
