"""Rendering: a plan and a cursor become the token prompt.

Owns the order of the markers and what is healed. Refuses to decide what goes into a prompt; that is the plan's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from context.prompt_form import n_document_head, n_document_tail, to_prompt
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FimIds, Piece, Plan, Prompt

MAX_HEAL_BYTES = 64  # each byte may cost a token of the context window; longer words are given as tokens up to here
_LOOK_BACK = 256  # characters

# The last word with the blank before it, whitespace run or punctuation run. \Z, for $ would look past a final line break.
_HEALED = re.compile(r" ?\w+\Z|\s+\Z|[^\w\s]+\Z")


def n_markers(ids: FimIds) -> int:
    """Control tokens in every prompt."""
    return 3 if ids.bos is None else 4


def stable_tokens(ids: FimIds, prefix_tokens: Sequence[int], suffix_tokens: Sequence[int]) -> tuple[int, ...]:
    """Everything up to and including the middle marker: BOS if the model wants one, PRE prefix SUF suffix MID."""
    bos = () if ids.bos is None else (ids.bos,)
    return (*bos, ids.prefix, *prefix_tokens, ids.suffix, *suffix_tokens, ids.middle)


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


def render(plan: Plan, snapshot: DocumentSnapshot, cursor: int, table: TokenTable, ids: FimIds) -> Prompt:
    """The prompt for a cursor under a plan. Only the text typed since the anchor is looked at.

    ValueError if the cursor lies before the anchor, or (layout psm) behind it: `plan.check` says REPLAN there.
    """
    text = snapshot.text
    cursor = text.floor(cursor)
    if cursor < plan.anchor or (plan.layout == "psm" and cursor != plan.anchor):
        raise ValueError(f"cursor {cursor} does not fit the plan's anchor {plan.anchor}")
    raw = text.slice(plan.anchor, cursor)
    typed = to_prompt(raw, plan.anchor == 0)
    sent, heal = split_healing(typed)
    sent_tokens = table.encode(sent)
    return Prompt(
        tokens=plan.tokens + sent_tokens,
        heal=heal,
        typed=typed,
        n_stable=len(plan.tokens),
        n_typed=len(sent_tokens),
        pieces=_pieces(plan, text, cursor, cursor - n_document_tail(raw, len(heal)), len(sent_tokens), ids),
    )


def _pieces(plan: Plan, text: Text, cursor: int, heal_start: int, n_sent: int, ids: FimIds) -> tuple[Piece, ...]:
    """What the prompt is made of, in its order. The tokens of all pieces add up to the prompt's."""
    n_behind = len(plan.rest_of_line) + len(plan.suffix_lines)
    behind = text.slice(cursor, text.floor(min(cursor + 2 * n_behind + 4, len(text))))
    suffix_end = cursor + n_document_head(behind, cursor == 0, n_behind)
    first, last = text.line_of(plan.window_start) + 1, text.line_of(plan.anchor) + 1
    where = "the cursor" if plan.layout == "psm" else "the anchor"
    pieces = [] if ids.bos is None else [Piece("marker", plan.window_start, plan.window_start, 1, "BOS")]
    pieces += [
        Piece("marker", plan.window_start, plan.window_start, 1, "PRE"),
        Piece("prefix", plan.window_start, plan.anchor, plan.n_prefix, f"line {first} up to {where} on line {last}"),
        Piece("marker", cursor, cursor, 1, "SUF"),
        Piece("suffix", cursor, suffix_end, plan.n_suffix, "what stood behind the cursor when the plan was made"),
        Piece("marker", plan.anchor, plan.anchor, 1, "MID"),
    ]
    if plan.layout != "psm":
        pieces += [
            Piece("typed", plan.anchor, heal_start, n_sent, "typed since the anchor, up to the last word border"),
            Piece("healing", heal_start, cursor, 0, "not sent: the first generated tokens must begin with it"),
        ]
    return tuple(pieces)
