"""What was generated before, found again by the text around the cursor, so that nothing is asked twice.

Owns the ended generations worth keeping, at most so many bytes of them, the longest unused go first. Not one tree from the
prompt's beginning on: its root would move, since windows begin elsewhere after some scrolling and anchors follow the typing.
What stays is the text near the cursor. So every line of a generated text, from the one that it began in, is filed by what
stands in front of that line, and the cursor's line is matched against what is filed there; typing on, an accepted word or line
and an undo all end up in such a line. What is found counts only if all that its prompt held still stands in the document, which
is compared (`context.fit`), and if what it held of other places is still so (`versions`). Settings, the model and the folders
of the workspace are not part of a key: when they change, everything is forgotten. Refuses to say what is worth offering.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from context.fit import Fit, check
from context.prompt_form import to_prompt
from context.text import Text
from context.types import DocumentSnapshot, Plan
from inference.types import FinishReason
from lsp_server.answers.generation import Generation

KEY_BYTES = 32  # in front of a line; prompt form
LONGEST_LINE = 4096  # bytes of the cursor's line that are compared
_MOST_ALIKE = 32  # filed under one key; what is older is hardly what one types through
_OVERHEAD = 1024  # bytes of objects around the texts
_ENDED = frozenset({FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTEXT})

Worth = Callable[[Generation, bytes], bool]
Current = Callable[[Plan, float], bool]


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """One generation. lines: key and place of each line's start; places count in prompt form from the anchor, and the line of
    an anchor inside a line begins before it. since: when its prompt was made."""

    generation: Generation
    since: float
    lines: tuple[tuple[bytes, int], ...]
    n_bytes: int


class Results:
    """max_bytes: 0 = nothing is kept. n_bytes: as if nothing were shared. n_found: look-ups that found something."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.n_bytes = self.n_found = 0
        self._kept: OrderedDict[_Kept, None] = OrderedDict()  # the one used last at the end
        self._by_line: dict[bytes, list[_Kept]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, generation: Generation, since: float) -> None:
        """A generation that has ended; since: when its prompt was made. That nothing is worth saying counts as well, where the
        model or a rule says so. One that was cancelled counts if it got past a line's end, a failed one never."""
        wholes = [generation.typed + said.rest.encode() for said in generation.said(generation.typed)]
        is_worth = generation.finish is FinishReason.STOP or any(whole[len(generation.typed) :].strip() for whole in wholes)
        if generation.finish not in _ENDED:
            rests = [whole[len(generation.typed) :].strip(b" \t") for whole in wholes]
            is_worth = generation.finish is FinishReason.CANCELLED and any(b"\n" in rest.lstrip() for rest in rests)
        if not is_worth:
            return
        plan = generation.plan
        lines = tuple(dict.fromkeys(line for whole in wholes for line in _lines(plan, generation.typed, whole)))
        n_bytes = _OVERHEAD + len(plan.prefix) + len(plan.suffix_lines) + sum(len(whole) + KEY_BYTES for whole in wholes)
        if not lines or n_bytes > self.max_bytes:
            return
        # what is compared are texts; the tokens are many, and nobody asks with this plan again
        generation.plan = replace(plan, tokens=())
        kept = _Kept(generation, since, lines, n_bytes)
        for key, _ in lines:
            alike = self._by_line.setdefault(key, [])
            alike.append(kept)
            if len(alike) > _MOST_ALIKE:
                self._drop(alike[0])
        self._kept[kept] = None
        self.n_bytes += n_bytes
        while self.n_bytes > self.max_bytes:
            self._drop(next(iter(self._kept)))

    def find(
        self, snapshot: DocumentSnapshot, offset: int, is_worth: Worth, is_current: Current = lambda *_: True
    ) -> Generation | None:
        """A generation whose text goes on from the cursor, its plan moved to where its prompt's text stands now; the newest.

        is_worth: asked with the generation and the text from its anchor to the cursor, in prompt form. is_current: asked with
        the moved plan and when it was made.
        """
        text = snapshot.text
        line_start = text.line_start(text.line_of(offset))
        if offset - line_start > LONGEST_LINE or not self._kept:
            return None
        near = text.floor(max(0, line_start - 2 * KEY_BYTES))
        key = to_prompt(text.slice(near, line_start), near == 0)[-KEY_BYTES:]
        line = to_prompt(text.slice(line_start, offset), line_start == 0)
        for kept in reversed(self._by_line.get(key, ())):
            if kept.generation.plan.doc_id != snapshot.doc_id:
                continue
            for place in (place for filed, place in kept.lines if filed == key):
                if self._fits(kept, snapshot, offset, place + len(line), is_worth, is_current):
                    self._kept.move_to_end(kept)
                    self.n_found += 1
                    return kept.generation
        return None

    def forget(self, doc_id: str | None = None) -> None:
        """All, or what belongs to a document."""
        for kept in [kept for kept in self._kept if doc_id in (None, kept.generation.plan.doc_id)]:
            self._drop(kept)

    def _fits(
        self, kept: _Kept, snapshot: DocumentSnapshot, offset: int, n_typed: int, is_worth: Worth, is_current: Current
    ) -> bool:
        """Does its text go on from here? Then its plan says where. n_typed: from the anchor to the cursor, prompt form."""
        generation = kept.generation
        if n_typed < len(generation.typed):
            return False
        plan = _moved(generation.plan, snapshot.text, offset, n_typed)
        typed = to_prompt(snapshot.text.slice(plan.anchor, offset), plan.anchor == 0)
        if len(typed) != n_typed or not generation.said(typed) or not is_worth(generation, typed):
            return False
        if check(plan, snapshot, offset)[0] is Fit.REPLAN or not is_current(plan, kept.since):
            return False
        generation.plan = plan
        return True

    def _drop(self, kept: _Kept) -> None:
        del self._kept[kept]
        self.n_bytes -= kept.n_bytes
        for key, _ in kept.lines:
            alike = [other for other in self._by_line.get(key, ()) if other is not kept]
            if alike:
                self._by_line[key] = alike
            else:
                self._by_line.pop(key, None)


def _lines(plan: Plan, typed: bytes, whole: bytes) -> list[tuple[bytes, int]]:
    """Key and place of the line's start in which a generation began, and of those that its text has. whole: what was typed
    since the anchor when it began, and what was generated."""
    text, anchor = plan.prefix + whole, len(plan.prefix)
    start = text.rfind(b"\n", 0, anchor + len(typed)) + 1
    lines = []
    while True:
        # a window may begin inside a line; only the file's beginning is a line's start without anything before it
        if start >= KEY_BYTES or plan.window_start == 0:
            lines.append((text[max(0, start - KEY_BYTES) : start], start - anchor))
        start = text.find(b"\n", max(start, anchor + len(typed))) + 1
        if not 0 < start < len(text):
            return lines


def _moved(plan: Plan, text: Text, offset: int, n_typed: int) -> Plan:
    """The plan where its text would have to stand: n_typed bytes (prompt form) before the cursor."""
    anchor = 0 if plan.anchor == 0 else _back(text, offset, n_typed)
    # what began with the file still has to
    start = 0 if plan.window_start == 0 else _back(text, anchor, len(plan.prefix))
    return replace(plan, anchor=anchor, window_start=start)


def _back(text: Text, end: int, n: int) -> int:
    """Where the n bytes (prompt form) in front of `end` begin in the document; its beginning, if they would begin before it."""
    raw, length = text.slice(text.floor(max(0, end - 2 * n)), end), n
    while True:
        head = max(0, len(raw) - length)
        is_inside = head > 0 and raw[head - 1 : head + 1] == b"\r\n"
        longer = n + raw.count(b"\r\n", head) + is_inside  # each CRLF counts as one
        if longer == length:
            return text.floor(max(0, end - length))
        length = longer
