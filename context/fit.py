"""Does a plan still fit the document? Answered by comparing text, whatever the edits were.

Owns what editors put behind the cursor by themselves (closing brackets and quotes) and may stay out of the prompt. Compares
slices as long as the plan's; never the whole file.
"""

from __future__ import annotations

from enum import Enum

from context.fim import split_healing
from context.prompt_form import to_prompt
from context.text import Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, Plan


class Fit(Enum):
    """KEEP: use the plan. MOVE_SOON: use it now and prepare a new one. REPLAN: it does not fit."""

    KEEP = "keep"
    MOVE_SOON = "move soon"
    REPLAN = "replan"


_CLOSERS = b")]}>\"'`; \t"
_MAX_CLOSERS = 256  # bytes; also the indentation of a closing bracket that Enter pushed to its own line
_MAX_CLOSER_LINES = 3
MAX_TYPED_BYTES = 8192  # between anchor and cursor; far more than the tokens after which a caller moves the anchor
_SPARE_TOKENS = 8


def check(plan: Plan, snapshot: DocumentSnapshot, cursor: int, table: TokenTable | None = None) -> tuple[Fit, str]:
    """Whether the plan may serve a cursor in a snapshot, and why (not).

    table: counts the typed tokens where their bytes alone do not show that they fit the limits; without it that is REPLAN.
    """
    text = snapshot.text
    cursor = text.floor(cursor)
    if plan.doc_id != snapshot.doc_id:
        return Fit.REPLAN, "another document"
    if cursor < plan.anchor:
        return Fit.REPLAN, "cursor left"
    if not _has_prefix(plan, text):
        return Fit.REPLAN, "text before the anchor changed"
    if not plan.layout.is_healed and cursor != plan.anchor:
        return Fit.REPLAN, "cursor moved, and the prefix ends at the cursor in this layout"
    if cursor - plan.anchor > MAX_TYPED_BYTES:
        return Fit.REPLAN, "cursor left"
    fit, reason = _behind(plan, text, cursor) if "suffix" in plan.layout.order else (Fit.KEEP, _UNCHANGED)
    if not plan.layout.is_healed and reason != _UNCHANGED:
        return Fit.REPLAN, "text behind the cursor changed"
    if fit is Fit.REPLAN:
        return fit, reason
    crowded, why = _typed_room(plan, text, cursor, table)
    return (crowded, why) if crowded is not Fit.KEEP and (crowded is Fit.REPLAN or fit is Fit.KEEP) else (fit, reason)


_UNCHANGED = "nothing but the typed text changed"


def _has_prefix(plan: Plan, text: Text) -> bool:
    start, anchor = plan.window_start, plan.anchor
    if anchor - start > 2 * len(plan.prefix) + 3 or text.floor(start) != start or text.floor(anchor) != anchor:
        return False
    return to_prompt(text.slice(start, anchor), start == 0) == plan.prefix


def _typed_room(plan: Plan, text: Text, cursor: int, table: TokenTable | None) -> tuple[Fit, str]:
    """Do the typed tokens fit into the limits? A token has at least one byte, so few bytes need no counting."""
    room = plan.limits.n_total - len(plan.tokens) - len(plan.layout.tail)
    if cursor - plan.anchor <= room - _SPARE_TOKENS:
        return Fit.KEEP, ""
    typed = to_prompt(text.slice(plan.anchor, cursor), plan.anchor == 0)
    sent = split_healing(typed)[0]
    n = len(sent) if table is None else len(table.encode(sent))
    if n > room:
        return Fit.REPLAN, "the typed text no longer fits the limits"
    if n > room - _SPARE_TOKENS and n > 2 * _SPARE_TOKENS:  # a new anchor would not help against few typed tokens
        return Fit.MOVE_SOON, "the typed text nearly fills the limits"
    return Fit.KEEP, ""


def _behind(plan: Plan, text: Text, cursor: int) -> tuple[Fit, str]:
    """Compare what stands behind the cursor with what stood there when the plan was made."""
    end = text.line_end(text.line_of(cursor))
    frozen = plan.rest_of_line
    n = 2 * len(frozen) + _MAX_CLOSERS
    if end - cursor > n and not plan.rest_is_cut:
        return Fit.REPLAN, "text behind the cursor changed"
    rest = to_prompt(text.slice(cursor, text.floor(min(end, cursor + n))), cursor == 0)
    overtyped = _n_overtyped(rest, frozen, plan.rest_is_cut)
    if plan.rest_is_cut:
        return _verdict(overtyped, is_same=rest.startswith(frozen))
    n = 2 * len(plan.suffix_lines) + 2 * len(frozen) + _MAX_CLOSERS
    lines = to_prompt(text.slice(end, text.floor(min(end + n, len(text)))), False)
    if overtyped is not None and lines.startswith(plan.suffix_lines):
        return _verdict(overtyped, is_same=rest == frozen)
    if not rest.strip(_CLOSERS) and _is_pushed_down(lines, frozen, plan.suffix_lines):
        return Fit.MOVE_SOON, "Enter moved what stood behind the cursor to the next line"
    return Fit.REPLAN, "text behind the cursor changed" if overtyped is None else "lines after the cursor changed"


def _verdict(overtyped: int | None, *, is_same: bool) -> tuple[Fit, str]:
    if overtyped is None:
        return Fit.REPLAN, "text behind the cursor changed"
    if overtyped > 0:
        return Fit.MOVE_SOON, "closers behind the cursor were overtyped"
    return Fit.KEEP, _UNCHANGED if is_same else "the editor put closers behind the cursor"


def _n_overtyped(now: bytes, frozen: bytes, is_cut: bool) -> int | None:
    """How many closers at the beginning of `frozen` are gone, if `now` is otherwise the same but for closers in front.

    The fewest if several fit. None: something else changed. is_cut: `now` may go on behind what was frozen.
    """
    n_closers = _n_leading_closers(frozen)
    n_in_front = _n_leading_closers(now)
    for gone in range(n_closers + 1):
        kept = frozen[gone:]
        if is_cut:
            if any(now.startswith(kept, at) for at in range(n_in_front + 1)):
                return gone
        elif now.endswith(kept) and len(now) - len(kept) <= n_in_front:
            return gone
    return None


def _is_pushed_down(lines: bytes, frozen: bytes, suffix_lines: bytes) -> bool:
    """Enter between brackets: do lines of closers follow, the last with what stood behind the cursor, then the frozen lines?"""
    at = 0
    for _ in range(_MAX_CLOSER_LINES):
        if lines[at : at + 1] not in (b"\n", b"\r"):
            return False
        end = _line_end(lines, at + 1)
        line = lines[at + 1 : end]
        if not line.strip(b" \t"):
            return False
        if _n_overtyped(line, frozen, is_cut=False) is not None and lines.startswith(suffix_lines, end):
            return True
        if line.strip(_CLOSERS):
            return False
        at = end
    return False


def _line_end(lines: bytes, at: int) -> int:
    return min((end for end in (lines.find(b"\n", at), lines.find(b"\r", at)) if end >= 0), default=len(lines))


def _n_leading_closers(data: bytes) -> int:
    part = data[:_MAX_CLOSERS]
    return len(part) - len(part.lstrip(_CLOSERS))
