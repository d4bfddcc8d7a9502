"""Rendering: a plan and a cursor become the token prompt.

Owns what a layout means, and what is healed. Refuses to decide what goes into a prompt; that is the plan's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from context.prompt_form import n_document_head, n_document_tail, to_prompt
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Layout, Piece, Plan, Prompt
from context.zones.types import Zones
from context.zones.wrapping import COMMENTS

MAX_HEAL_BYTES = 64  # each byte may cost a token of the context window; longer words are given as tokens up to here
_LOOK_BACK = 256  # characters

# The last word with the blank before it, whitespace run or punctuation run. \Z, for $ would look past a final line break.
_HEALED = re.compile(r" ?\w+\Z|\s+\Z|[^\w\s]+\Z")


def header_tokens(layout: Layout, file: FileName, table: TokenTable, zones: Zones | None = None) -> tuple[int, ...]:
    """The header for a file; empty if there is none to give. zones: pieces that stand in it as files of their own, in front
    of the marker that begins this file's."""
    if not file.path:
        return ()
    own = own_marker(layout)
    tokens: list[int] = []
    for at, entry in enumerate(layout.header):
        if at == own and zones is not None and not isinstance(entry, str):
            for path, text in zones.files:
                tokens += (entry[0], *table.encode(f"{path}\n".encode("utf-8", "replace") + text))
        tokens += table.encode(_filled(entry, file)) if isinstance(entry, str) else (entry[0],)
    return tuple(tokens)


def own_marker(layout: Layout) -> int | None:
    """Where in the header the marker stands that begins the file's own part; None: the format has no files of their own."""
    return max((at for at, entry in enumerate(layout.header) if not isinstance(entry, str)), default=None)


def front_text(layout: Layout, lead: bytes, zones: Zones | None) -> bytes:
    """What is tokenized with the prefix: pieces of other files stand behind the lead and in front of the title. lead: of
    both, as `lead_text` gives it."""
    if zones is None or layout.placement != COMMENTS:
        return lead
    n = len(layout.lead.encode())
    return lead[:n] + b"".join(text for _, text in zones.files) + lead[n:]


def lead_text(layout: Layout, file: FileName) -> bytes:
    """What stands in front of the prefix and is tokenized with it."""
    return layout.lead.encode() + (_filled(layout.title, file) if file.path else b"")


def _filled(text: str, file: FileName) -> bytes:
    # one pass: a path may hold braces
    return re.sub(r"\{(path|repository)\}", lambda m: getattr(file, m[1]), text).encode("utf-8", "replace")


def stable_tokens(
    layout: Layout, header: Sequence[int], prefix_tokens: Sequence[int], suffix_tokens: Sequence[int]
) -> tuple[int, ...]:
    """Everything before the typed text, in the layout's order."""
    parts = {"header": header, "prefix": prefix_tokens, "suffix": suffix_tokens}
    tokens: list[int] = []
    for entry in layout.stable:
        tokens += parts[entry] if isinstance(entry, str) else (entry[0],)
    return tuple(tokens)


def split_healing(typed: bytes) -> tuple[bytes, bytes]:
    """Split typed text (prompt form) into what is sent as tokens and what the first generated tokens must begin with.

    The second part has at most MAX_HEAL_BYTES bytes, and is empty only if nothing was typed.
    """
    start = max(len(typed) - 4 * _LOOK_BACK, 0)
    while start < len(typed) and typed[start] & 0xC0 == 0x80:
        start += 1
    end = typed[start:].decode()[-_LOOK_BACK:]
    match = _HEALED.search(end)
    healed = end[match.start() :].encode() if match else b""
    cut = max(len(healed) - MAX_HEAL_BYTES, 0)
    while cut < len(healed) and healed[cut] & 0xC0 == 0x80:
        cut += 1
    healed = healed[cut:]
    return typed[: len(typed) - len(healed)], healed


def render(plan: Plan, snapshot: DocumentSnapshot, cursor: int, table: TokenTable) -> Prompt:
    """The prompt for a cursor under a plan. Only the text typed since the anchor is looked at.

    ValueError if the cursor lies before the anchor, or (a layout without healing) behind it: `plan.check` says REPLAN there.
    """
    text = snapshot.text
    cursor = text.floor(cursor)
    if cursor < plan.anchor or (not plan.layout.is_healed and cursor != plan.anchor):
        raise ValueError(f"cursor {cursor} does not fit the plan's anchor {plan.anchor}")
    raw = text.slice(plan.anchor, cursor)
    typed = to_prompt(raw, plan.anchor == 0)
    sent, heal = split_healing(typed)
    sent_tokens = table.encode(sent)
    return Prompt(
        tokens=plan.tokens + sent_tokens + plan.layout.tail,
        heal=heal,
        typed=typed,
        n_stable=len(plan.tokens),
        n_typed=len(sent_tokens),
        pieces=_pieces(plan, text, cursor, cursor - n_document_tail(raw, len(heal)), len(sent_tokens)),
    )


def _pieces(plan: Plan, text: Text, cursor: int, heal_start: int, n_sent: int) -> tuple[Piece, ...]:
    """What the prompt is made of, in its order. The tokens of all pieces add up to the prompt's."""
    n_behind = len(plan.rest_of_line) + len(plan.suffix_lines)
    behind = text.slice(cursor, text.floor(min(cursor + 2 * n_behind + 4, len(text))))
    suffix_end = cursor + n_document_head(behind, cursor == 0, n_behind)
    first, last = text.line_of(plan.window_start) + 1, text.line_of(plan.anchor) + 1
    where = "the anchor" if plan.layout.is_healed else "the cursor"
    named = ", behind the file's path" if plan.n_lead > len(plan.layout.lead) else ""
    prefix = f"line {first} up to {where} on line {last}{named}"
    others = _zone_pieces(plan)
    in_header = plan.layout.placement != COMMENTS
    n_before = 0 if in_header else plan.n_zones
    n_prefix = plan.n_prefix - n_before - plan.n_heads
    n_header = plan.n_header - (plan.n_zones if in_header else 0)
    parts = {
        "header": Piece("header", plan.window_start, plan.window_start, n_header, "the file's path"),
        "prefix": Piece("prefix", plan.window_start, plan.anchor, n_prefix, prefix),
        "suffix": Piece("suffix", cursor, suffix_end, plan.n_suffix, "what stood behind the cursor when the plan was made"),
        "typed": Piece("typed", plan.anchor, heal_start, n_sent, "typed since the anchor, up to the last word border"),
    }
    pieces: list[Piece] = []
    for entry, following in zip_longest(plan.layout.order, plan.layout.order[1:]):
        if not isinstance(entry, str):
            at = parts[following].start if isinstance(following, str) else cursor
            pieces.append(Piece("marker", at, at, 1, entry[1]))
            continue
        if entry == ("header" if in_header else "prefix"):
            pieces += others
        if entry == "prefix" and plan.n_heads:
            at = plan.window_start
            pieces.append(Piece("core", at, at, plan.n_heads, "what encloses the cursor and begins before the window"))
        if entry != "header" or plan.n_header:
            pieces.append(parts[entry])
    if plan.layout.is_healed:
        why = "not sent: the first generated tokens must begin with it"
        pieces.append(Piece("healing", heal_start, cursor, 0, why))
    return tuple(pieces)


def _zone_pieces(plan: Plan) -> list[Piece]:
    at = plan.window_start
    return [
        Piece(
            piece.zone,
            at,
            at,
            piece.n_tokens,
            f"{piece.name}: {piece.why}" + (f" ({piece.cut})" if piece.cut else ""),
            piece.id,
            piece.path,
        )
        for piece in (() if plan.zones is None else plan.zones.pieces)
    ]
