"""One offer that stands: where it is, and how much of it is in the document by now.

Owns the comparison of each edit with the text that was offered. Pure.
"""

from __future__ import annotations

from context.text import Edit, Text
from lsp_server.asking.reluctance import Kind

_CLOSERS = b")]}>\"'`; \t,"
_MOST_BEHIND = 256


class Standing:
    """start: byte where the text begins; text: all of it, of which n_done bytes stood there when it was answered; n_behind:
    bytes behind the cursor that it replaces. n_offered, n_accepted, n_typed: characters."""

    def __init__(self, request_id: int, kind: Kind, start: int, text: bytes, n_done: int, n_behind: int, since: float) -> None:
        self.request_id = request_id
        self.kind = kind
        self.since = since
        self.n_offered = len(text[n_done:].decode(errors="replace"))
        self.n_accepted = self.n_typed = 0
        self._start = start
        self._text = text
        self._done = self._first = n_done
        self._behind = n_behind
        self._gains: list[tuple[int, bool]] = []  # where each step led to, and whether it was more than a key

    @property
    def span(self) -> tuple[int, int]:
        """Bytes of the document that came from it."""
        return self._start + self._first, self._start + self._done

    def is_at(self, cursor: int) -> bool:
        return self._start <= cursor <= self._start + max(self._done, self._first) + self._behind

    def goes_on_as(self, new: Standing, text: Text) -> bool:
        """Would both make the same text, as far as both go?"""
        first = min(self._start, new._start)
        if max(self._start, new._start) - first > 4096 or max(self._start, new._start) > len(text):
            return False
        mine = text.slice(first, self._start) + self._text
        other = text.slice(first, new._start) + new._text
        n = min(len(mine), len(other))
        return mine[:n] == other[:n] and n > self._start + self._done - first

    def become(self, new: Standing) -> None:
        """The same text, told again at another place in it, perhaps longer."""
        delta = self._start - new._start
        self.request_id = new.request_id
        self._first += delta
        self._gains = [(at + delta, is_more) for at, is_more in self._gains]
        self._start, self._text, self._behind = new._start, new._text, new._behind
        self._done = max(new._done, self._first)
        self.n_offered = len(new._text[self._first :].decode(errors="replace"))

    def step(self, edit: Edit, after: Text) -> str:
        """edit: narrowed to what it changes; after: the text with it. "": it still stands; "whole": all of it is there;
        "other": something else was done there; "gone": done elsewhere, or back to before it was offered."""
        start, here = self._start, self._start + self._done
        if edit.end < start or (edit.end == start and self._done):
            self._start += len(edit.new) - (edit.end - edit.start)
            is_above = b"\n" in after.slice(edit.start + len(edit.new), max(self._start, edit.start + len(edit.new)))
            return "" if is_above and edit.end < start else "gone"
        if edit.start < start:
            return "other" if edit.new else "gone"
        if edit.start > here + max(self._behind, 0):
            return "gone"
        if not edit.new:
            return self._shrink(edit)
        return self._grow(edit, after)

    def _shrink(self, edit: Edit) -> str:
        if edit.start >= self._start + self._done:
            self._behind = max(0, self._behind - (edit.end - edit.start))
            return ""
        self._done = edit.start - self._start
        if self._done < self._first:
            self._done = self._first
            return "gone"
        self._count()
        return ""

    def _grow(self, edit: Edit, after: Text) -> str:
        start = self._start
        end = min(after.floor(start + len(self._text)), len(after))
        stands = after.slice(start, end)
        n = next(
            (i for i, (a, b) in enumerate(zip(stands, self._text, strict=False)) if a != b), min(len(stands), len(self._text))
        )
        put_in = edit.start + len(edit.new) - start  # how far the edit reaches
        agreed = min(n, put_in)
        rest = edit.new[max(0, start + agreed - edit.start) :]
        n_keys = len(self._text[self._done : agreed].decode(errors="replace"))
        if start + agreed <= edit.start or rest.strip(_CLOSERS):
            # clients that gather changes tell an accepted word and the key behind it at once
            if n_keys > 1 and self._is_border(agreed):
                self._gains.append((agreed, True))
                self._done = agreed
                self._count()
            return "other"
        is_all = n == len(self._text) and not self._text[agreed:].strip(_CLOSERS)
        self._behind = max(0, self._behind + len(rest) - (edit.end - edit.start))
        self._gains.append((len(self._text) if is_all else agreed, n_keys > 1))
        self._done = len(self._text) if is_all else agreed
        self._count()
        return "whole" if is_all else ""

    def _is_border(self, at: int) -> bool:
        """Does a word end there?"""
        before, after = self._text[:at].decode(errors="replace")[-1:], self._text[at:].decode(errors="replace")[:1]
        return not ((before.isalnum() or before == "_") and (after.isalnum() or after == "_"))

    def count_typed_as_accepted(self) -> None:
        """The client says that the last step was a part accepted."""
        if self._gains:
            self._gains[-1] = self._gains[-1][0], True
            self._count()

    def _count(self) -> None:
        """From the steps that are still in the document."""
        self._gains = [(min(at, self._done), is_more) for at, is_more in self._gains if at <= self._done or is_more]
        self.n_accepted = self.n_typed = 0
        last = self._first
        for at, is_more in self._gains:
            n = len(self._text[last:at].decode(errors="replace"))
            self.n_accepted, self.n_typed = self.n_accepted + n * is_more, self.n_typed + n * (not is_more)
            last = max(last, at)
