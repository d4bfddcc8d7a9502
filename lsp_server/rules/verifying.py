"""What the parser, the names and the confidence leave of a settled text.

Owns how a text is cut back to the longest part that the parser takes. Refuses to parse: what a parser says comes from a
function.
"""

from __future__ import annotations

from dataclasses import replace

from lsp_server.rules.confidence import confidence, why_unsure
from lsp_server.rules.draft import Draft
from lsp_server.rules.place import Place
from lsp_server.rules.scanner import PAIRS
from lsp_server.rules.settled import REASONS, Checked, Known, Settled, SyntaxCheck

_MOST_CUTS = 4  # each costs a look of the parser
_SHORTEST_PART = 3  # characters of a line that is cut inside


def verified(
    settled: Settled,
    place: Place,
    off: frozenset[str] = frozenset(),
    check: SyntaxCheck | None = None,
    known: Known | None = None,
    least: float | None = None,
) -> Settled:
    """check, known: not asked where they are None. least: the confidence that is wanted."""
    if not settled.text:
        return settled
    draft = Draft(place, off, settled.text, settled.n_said, list(settled.rules), list(settled.notes))
    n_replaced, unknown = settled.n_replaced, settled.unknown_names
    if check is not None:
        n_replaced, unknown = _check(draft, n_replaced, check, known)
    rules, notes = tuple(dict.fromkeys(draft.rules)), tuple(draft.notes)
    if not draft.text.strip() or draft.text == place.rest[:n_replaced]:
        return Settled("", 0, REASONS["syntax"], rules, draft.n_said, settled.mean_logprob, None, unknown, notes)
    sure = confidence(draft.text, settled.mean_logprob, len(unknown))
    told = (settled.mean_logprob, sure, unknown, notes, settled.n_head)
    made = Settled(draft.text, n_replaced, "", rules, draft.n_said, *told)
    if draft.is_on("confidence") and least is not None and sure is not None and sure < least:
        return replace(made, text="", n_replaced=0, reason=why_unsure(sure, least), rules=(*rules, "confidence"))
    return made


def _check(draft: Draft, n_replaced: int, check: SyntaxCheck, known: Known | None) -> tuple[int, tuple[str, ...]]:
    """Cut back to the longest part that the parser takes, and the names in it that nobody knows."""
    checked = check(draft.text, n_replaced)
    for _ in range(_MOST_CUTS):
        if checked.error_at is None or not draft.text or not draft.is_on("syntax"):
            break
        kept = _before_error(draft.text, checked.error_at)
        draft.keep("syntax", len(kept) if _says_something(kept) else 0)
        n_replaced = draft.fit() if draft.text else 0
        checked = check(draft.text, n_replaced) if draft.text.strip() else Checked()
    if checked.error_at is not None and draft.is_on("syntax"):
        draft.keep("syntax", 0)
    if checked.why and draft.is_on("syntax"):
        draft.notes.append(f"not parsed: {checked.why}")
    if not draft.is_on("names") or known is None:
        return n_replaced, ()
    return n_replaced, tuple(name for name in checked.calls if not known(name))


def _says_something(text: str) -> bool:
    """A sign or a word alone, as is left of a cut, says nothing."""
    bare = text.strip()
    return any(map(str.isalnum, bare)) and not bare.isidentifier()


def _before_error(text: str, error_at: int) -> str:
    """A shorter text: without the line of the error, or where that is the first one, without its last part."""
    lines_before = text[: text.rfind("\n", 0, error_at + 1) + 1].rstrip()
    if lines_before:
        return lines_before
    first = text.split("\n", 1)[0].rstrip()
    before = text[:error_at].rstrip()
    if len(before.lstrip()) >= _SHORTEST_PART:
        return before
    if len(first) < len(text.rstrip()):
        return first
    if first[-1:] in PAIRS and first[-1:]:
        return first[:-1].rstrip()
    return first.rpartition(" ")[0].rstrip()
