"""From generated text to the item offered: judged at its place, in the document's own form, with the range that it replaces."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from context.gate import Gate
from context.prompt_form import to_prompt
from context.syntax import SyntaxTree
from context.text import Edit, Text
from context.types import DocumentSnapshot
from lsp_server.answers.generation import Said
from lsp_server.asking.literals import over
from lsp_server.rules.checking import known_names, syntax_check
from lsp_server.rules.confidence import best_first
from lsp_server.rules.fitting import fit
from lsp_server.rules.judge import Judge
from lsp_server.rules.place import LOOK, Place, place_of
from lsp_server.rules.settled import NOTHING_YET, REASONS, Settled
from lsp_server.rules.settling import without_head
from lsp_server.rules.verifying import verified
from lsp_server.types import CompletionQuery, Item

LONGEST_HEAD = 1024  # bytes of the line that an item may repeat in front of the cursor
LONGEST_TAIL = 80  # characters behind a replaced closer that are replaced with it, so that the range ends where the line does
_CUT = "\uffff"
_NO_CLOSERS = frozenset(_CUT + "([{_\"'`")


@dataclass(frozen=True, slots=True)
class Offers:
    """items: best first. reason: why there are none, or "". notes: the rules that took part, for `explain`. n_head: of the only
    one, characters that were generated in front of it and stand before the cursor already."""

    items: tuple[Item, ...]
    reason: str
    notes: tuple[str, ...]
    n_head: int = 0


def as_if_selected(query: CompletionQuery) -> tuple[DocumentSnapshot, int]:
    """The document and the cursor as they would be with the popup's selected entry typed."""
    snapshot, selected = query.snapshot, query.selected
    if selected is None:
        return snapshot, query.offset
    entry = selected.text.encode("utf-8", "replace")
    text = snapshot.text.edit(selected.start, selected.end, entry)
    return DocumentSnapshot(snapshot.doc_id, snapshot.version, snapshot.language, text), selected.start + len(entry)


def place_at(
    snapshot: DocumentSnapshot, offset: int, since: str = "", *, accepted: bool = False, tree: SyntaxTree | None = None
) -> Place:
    """The place at a cursor, as the rules see it. since: what was typed (prompt form) in front of the cursor since the place
    that is meant. accepted: a suggestion has just been accepted there. tree: of the snapshot, perhaps moved along with the last
    edits: it tells what the first line that is looked at and the cursor's begin in, which no edit has touched while one types
    on a line. Without it the rules read that off the text, which is the same but for what began further above."""
    text = snapshot.text
    start = _look_from(text, offset - len(since.encode()))
    before = _lines(text.slice(start, offset), start == 0).removesuffix(since)
    end = text.floor(offset + LOOK)
    after = _lines(text.slice(offset, end), False)
    if "\n" not in after and any(piece.strip() for piece in text.pieces(end, text.line_end(text.line_of(offset)))):
        after += _CUT  # the line goes on: a character that no model says
    lead = zone = ""
    if tree is not None and tree.text is text:
        line_start = text.line_start(max(0, text.line_of(offset) - since.count("\n")))
        lead = over(tree, text, start)[1] if start else ""
        zone = over(tree, text, line_start)[0] if line_start > start else ""
    is_end = end == len(text)
    return place_of(
        snapshot.language, before, after, accepted=accepted, zone=zone, lead=lead, is_end=is_end, is_start=start == 0
    )


def _look_from(text: Text, offset: int) -> int:
    """A line's start, if one is near enough."""
    start = text.floor(max(0, offset - LOOK + 1))
    line = text.line_of(start)
    if start > text.line_start(line) and line < text.line_of(max(0, offset)):
        return text.line_start(line + 1)
    return start


def _lines(data: bytes, at_start: bool) -> str:
    """In prompt form, and every line ends with LF."""
    return to_prompt(data, at_start).decode().replace("\r", "\n")


def wants_line(snapshot: DocumentSnapshot, offset: int, *, accepted: bool = False) -> bool:
    """Is one line wanted there, and not a block?"""
    return place_at(snapshot, offset, accepted=accepted).single_line


def judge_of(snapshot: DocumentSnapshot, offset: int, *, single_line: bool, tree: SyntaxTree | None = None) -> Judge:
    """What tells when a generation that begins there, for one line or a block, may end. tree: of the snapshot."""
    return Judge(replace(place_at(snapshot, offset, tree=tree), single_line=single_line))


def offer(
    said: Said,
    query: CompletionQuery,
    snapshot: DocumentSnapshot,
    offset: int,
    tree: SyntaxTree | None = None,
    indexed: Callable[[str], bool] = lambda name: False,
    least: float | None = None,
) -> tuple[Item | None, Settled]:
    """The item for what was said at `offset` of `snapshot` (the query's, as if its selected entry were typed); None if nothing
    is worth offering. What was typed since the generation began is judged with it, so that typing on changes nothing.

    tree: of the query's document, or of the snapshot. indexed: is a name known elsewhere? least: the confidence that is wanted
    of what nobody has asked for by hand.
    """
    settled: Settled | None = None
    tree = tree and _tree_of(tree, query, snapshot)
    place = place_at(snapshot, offset, tree=tree)
    if said.is_line is not None and not said.since:
        place = replace(place, single_line=said.is_line)
    if since := said.since.replace("\r", "\n"):
        origin = place_at(snapshot, offset, since, tree=tree)
        origin = origin if said.is_line is None else replace(origin, single_line=said.is_line)
        whole = _judged(origin, since + said.rest, said.tokens, said.is_whole)
        settled = without_head(whole, since)
        if settled is not None and not settled.n_replaced:  # an editor may have closed since what was opened since
            settled = replace(settled, n_replaced=fit(settled.text, place.rest)[1])
    if settled is None:
        n = len(said.since)
        behind = tuple((end - n, logprob) for end, logprob in said.tokens if end > n)
        settled = _judged(place, said.rest, behind, said.is_whole)
    if said.mean_logprob is not None:
        settled = replace(settled, mean_logprob=said.mean_logprob)
    if said.stopped and said.stopped not in settled.rules:
        why = settled.reason if settled.text or said.rest.strip() else REASONS.get(said.stopped, settled.reason)
        settled = replace(settled, rules=(said.stopped, *settled.rules), reason=why)
    least = None if query.invoked else least
    if settled.text and tree is not None:
        gate = Gate(snapshot.language, snapshot.text, offset, tree)
        known = known_names(snapshot.language, snapshot.text, indexed)
        settled = verified(settled, place, check=syntax_check(gate, place.rest), known=known, least=least)
    else:
        settled = verified(settled, place, least=least)
    return (_item(settled, place, query, snapshot.text, offset) if settled.text else None), settled


def offers(
    said: Iterable[Said],
    query: CompletionQuery,
    snapshot: DocumentSnapshot,
    offset: int,
    tree: SyntaxTree | None = None,
    indexed: Callable[[str], bool] = lambda name: False,
    now: Text | None = None,
    least: float | None = None,
) -> Offers:
    """The items of several candidates, the surest first; those that come out the same are one. now: the document as it has
    become meanwhile: what does not fit there any more is not offered."""
    said = tuple(said)
    judged = [offer(each, query, snapshot, offset, tree, indexed, least) for each in said]
    order = best_first([settled.confidence for _, settled in judged])
    items = tuple(dict.fromkeys(item for i in order if (item := judged[i][0]) is not None))
    if now is not None and not all(_fits(item, query, now) for item in items):
        return Offers((), "the text has changed meanwhile", ())
    reasons = [settled.reason for _, settled in judged if settled.reason]
    notes = [note for _, settled in judged for note in _notes(settled)]
    n_head = judged[0][1].n_head if items and len(said) == 1 and not said[0].since else 0
    return Offers(items, "" if items else reasons[0] if reasons else NOTHING_YET, tuple(dict.fromkeys(notes)), n_head)


def _fits(item: Item, query: CompletionQuery, now: Text) -> bool:
    """Can an item still be put in although the text has become another? What stands before the cursor on its line has to be
    what it was, on the line of the same number."""
    before = query.snapshot.text
    if now is before:
        return True
    line = before.line_of(item.start)
    if line >= now.n_lines:
        return False
    kept = before.slice(before.line_start(line), query.offset)
    start = now.line_start(line)
    end = start + len(kept)
    return end <= len(now) and not now.splits(end) and now.slice(start, end) == kept


@functools.lru_cache(maxsize=16)
def _judged(place: Place, text: str, tokens: tuple[tuple[int, float], ...], is_whole: bool) -> Settled:
    """Who types a suggestion through asks for the same at each key."""
    judge = Judge(place)
    start = 0
    for end, logprob in tokens:
        if start < len(text):  # what a rule has cut is no part of it
            judge.push(text[start:end], logprob)
        start = end
    judge.push(text[start:])
    return judge.settle(is_whole=is_whole)


def _tree_of(tree: SyntaxTree, query: CompletionQuery, snapshot: DocumentSnapshot) -> SyntaxTree:
    """The tree moved to the snapshot, in which the popup's entry is typed."""
    selected = query.selected
    if selected is None or tree.text is snapshot.text:
        return tree
    return tree.edited((Edit(selected.start, selected.end, selected.text.encode("utf-8", "replace")),), snapshot.text)


def _notes(settled: Settled) -> list[str]:
    told = [f"rules: {', '.join(settled.rules)}"] if settled.rules else []
    names = [f"nobody knows the name {name}" for name in settled.unknown_names]
    return [*told, *names, *settled.notes]


def _item(settled: Settled, place: Place, query: CompletionQuery, text: Text, offset: int) -> Item:
    line = text.line_of(offset)
    inserted, n_replaced = _stretched(settled.text, settled.n_replaced, place.rest)
    if _uses_crlf(text, line):
        inserted = inserted.replace("\n", "\r\n")
    n_bytes = len(place.rest[:n_replaced].encode())
    if query.selected is not None:
        start, end, head = query.selected.start, max(query.selected.end, query.offset), query.selected.text
        return Item(start, end + n_bytes, head + inserted)
    # the range begins at the line's first non-blank, so that it stays the same from key to key
    start = _first_non_blank(text, text.line_start(line), offset)
    if offset - start > LONGEST_HEAD:
        start = offset  # an answer need not repeat a minified file
    return Item(start, offset + n_bytes, text.slice(start, offset).decode() + inserted)


def _stretched(inserted: str, n_replaced: int, rest: str) -> tuple[str, int]:
    """Where the text has taken over some of the closers behind the cursor, the others too: so the range ends with the line."""
    tail = rest[n_replaced:].rstrip()
    if not n_replaced or not tail or len(tail) > LONGEST_TAIL or any(c.isalnum() or c in _NO_CLOSERS for c in tail):
        return inserted, n_replaced
    return inserted + tail, n_replaced + len(tail)


def _first_non_blank(text: Text, start: int, end: int) -> int:
    """The first byte of [start, end) that is no blank or tab, else end."""
    for piece in text.pieces(start, end):
        n_blank = len(piece) - len(piece.lstrip(b" \t"))
        start += n_blank
        if n_blank < len(piece):
            break
    return start


def _uses_crlf(text: Text, line: int) -> bool:
    """Does the cursor's line, or on the last line the one before it, end with CRLF?"""
    end = text.line_end(line)
    if end < len(text):
        return text.slice(end, text.floor(end + 2)) == b"\r\n"
    start = text.line_start(line)
    return text.slice(text.floor(start - 2), start).endswith(b"\r\n")
