"""Planning: which text stands around the anchor, frozen until the plan no longer fits.

Owns the anchor, the division of the limits and how a plan moves with edits before it. Pure: no plan depends on the time or on
what is in any cache, only on the snapshot, the cursor, the limits and the plan before. Never raises for any text.
"""

from __future__ import annotations

import re
from dataclasses import replace

from context.budget import own_demand
from context.fim import front_text, header_tokens, lead_text, own_marker, split_healing, stable_tokens
from context.fit import Fit, check
from context.prompt_form import to_prompt
from context.syntax import SyntaxTree
from context.text import Edit, Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Layout, Limits, Plan
from context.window import Window, following, preceding
from context.zones.heads import heads
from context.zones.types import Zones
from context.zones.wrapping import COMMENTS

__all__ = ["Fit", "check", "make_plan", "shift"]

TYPING_ROOM = 32  # tokens kept free for what is typed next, where the limits allow
MAX_ANCHOR_DISTANCE = 2048  # bytes; behind this a line's start is no anchor any more (minified files)
MERGE_TOKENS = 2  # text joined to the prefix may split otherwise than alone
_NAME_SHARE = 8  # the file's path may take an eighth of the room
_NEAR_DISTANCE = 512  # where the anchor goes instead
_ZONE_SHARE = (3, 5)  # of the room that pieces of other files may take, where the file itself needs more than the rest
_HEAD_SHARE, _MOST_HEADS = 4, 160  # of the prefix, tokens

NO_NAME = FileName()
_WORD_START = re.compile(r"(?<=\W)\w")


def make_plan(
    snapshot: DocumentSnapshot,
    cursor: int,
    limits: Limits,
    table: TokenTable,
    layout: Layout,
    *,
    file: FileName = NO_NAME,
    previous: Plan | None = None,
    zones: Zones | None = None,
    tree: SyntaxTree | None = None,
) -> Plan:
    """Plan a prompt for a cursor (clamped into the text, and out of characters and CRLF pairs).

    A rendered prompt has at most limits.n_total tokens (if that leaves room for the markers), healing bytes not counted.
    file: what the model is told of the text's place, where the layout has a way and the limits have room.
    previous: the plan that served this document last, shifted by the edits since; its window is kept where possible.
    zones: pieces of other places; left out where the limits have no room for all of them. tree: of the document, if there is
    one: says what encloses the cursor.
    """
    text = snapshot.text
    cursor = text.floor(cursor)
    room = max(limits.n_total - layout.n_markers, 0)
    notes: list[str] = []
    header, lead, n_lead = _naming(layout, file, room, table, notes)
    room = max(room - len(header) - n_lead, 0)
    asked = zones.digest if zones is not None else ""
    zones = _placed(zones, layout, header, len(text), limits, room, notes)
    if zones is not None and zones.files:
        if layout.placement != COMMENTS:
            header = header_tokens(layout, file, table, zones)
        room = max(room - zones.n_tokens - MERGE_TOKENS, 0)
    if layout.is_healed:
        anchor, n_sent = _anchor(text, cursor, room, table, notes)
        left = room - n_sent
        budget = left if limits.fill else left - min(TYPING_ROOM, left // 4)
    else:
        anchor, budget = cursor, room

    # The suffix gets its share first, a quarter or what the prefix may not use, and the rest of the budget at the file's top,
    # where the prefix can't use it. The prefix's limit never depends on that extra part: its window would not stand still.
    most_suffix = limits.n_suffix if "suffix" in layout.order else 0
    n_suffix = max(min(most_suffix, max(budget // 4, budget - limits.n_prefix)), 0)
    after = following(text, cursor, n_suffix, table)
    n_prefix = max(min(limits.n_prefix, budget - len(after.tokens)), 0)
    keep = _kept_start(snapshot, anchor, layout, previous)
    before = preceding(text, anchor, n_prefix, table, keep, fill=limits.fill)
    enclosing = b""
    if tree is not None and before.start > 0:
        before, enclosing = _with_heads(before, tree, text, cursor, anchor, n_prefix, table, keep, fill=limits.fill)
    n_more = min(most_suffix, budget - len(before.tokens))
    if before.start == 0 and after.is_cut and n_more > n_suffix:
        after = following(text, cursor, n_more, table)
    notes.append(before.note)
    front = front_text(layout, lead, zones)
    prefix_tokens = table.encode(front + enclosing + before.prefix) if front or enclosing else before.tokens
    if after.is_cut and most_suffix:
        notes.append("rest of the line cut to the limits" if after.rest_is_cut else "lines after the cursor cut to the limits")
    return Plan(
        doc_id=snapshot.doc_id,
        layout=layout,
        window_start=before.start,
        anchor=anchor,
        prefix=before.prefix,
        rest_of_line=after.rest,
        suffix_lines=after.lines,
        tokens=stable_tokens(layout, header, prefix_tokens, after.tokens),
        n_prefix=len(prefix_tokens),
        n_suffix=len(after.tokens),
        limits=limits,
        notes=tuple(notes),
        rest_is_cut=after.rest_is_cut,
        n_header=len(header),
        n_lead=len(lead),
        zones=zones,
        asked=asked,
        heads=enclosing,
        n_heads=len(table.encode(enclosing)),
    )


def _placed(
    zones: Zones | None, layout: Layout, header: tuple[int, ...], n_bytes: int, limits: Limits, room: int, notes: list[str]
) -> Zones | None:
    """The pieces if there is room for them; no pieces if not."""
    if zones is None or not zones.files:
        return zones
    n = zones.n_tokens + MERGE_TOKENS
    spare = room - own_demand(n_bytes, limits.n_prefix + limits.n_suffix)
    has_place = layout.placement == COMMENTS or (own_marker(layout) is not None and bool(header))
    if has_place and n <= max(room * _ZONE_SHARE[0] // _ZONE_SHARE[1], spare):
        notes += [f"cut: {cut}" for cut in zones.cuts]
        return zones
    notes.append("the limits are small: pieces of other files are left out")
    return Zones()


def _with_heads(
    before: Window, tree: SyntaxTree, text: Text, cursor: int, anchor: int, n_prefix: int, table: TokenTable, keep: int | None,
    *, fill: bool,
) -> tuple[Window, bytes]:  # fmt: skip
    """The window and the heads of what encloses the cursor outside of it, both within the prefix's limit."""
    most = min(n_prefix // _HEAD_SHARE, _MOST_HEADS)
    made = heads(tree, text, cursor, before.start, most, table)
    if not made or len(before.tokens) + len(table.encode(made)) + MERGE_TOKENS <= n_prefix:
        return before, made
    smaller = preceding(text, anchor, n_prefix - most - MERGE_TOKENS, table, keep, fill=fill)
    return smaller, heads(tree, text, cursor, smaller.start, most, table)


def shift(plan: Plan, edit: Edit) -> Plan:
    """The plan after an edit: moved if the edit lies wholly before its window, else unchanged (`check` compares the text).

    A window that begins at the file's start has nothing before it: what is inserted there belongs to it.
    """
    if plan.window_start == 0 or edit.end > plan.window_start:
        return plan
    n = len(edit.new) - (edit.end - edit.start)
    return replace(plan, window_start=plan.window_start + n, anchor=plan.anchor + n)


def _naming(
    layout: Layout, file: FileName, room: int, table: TokenTable, notes: list[str]
) -> tuple[tuple[int, ...], bytes, int]:
    """Header tokens, the text in front of the prefix, and the tokens to keep free for that text."""
    bare = lead_text(layout, NO_NAME)
    header, lead = header_tokens(layout, file, table), lead_text(layout, file)
    n_lead = len(table.encode(lead)) + MERGE_TOKENS if lead else 0
    if len(header) + n_lead > room // _NAME_SHARE and (header or lead != bare):
        notes.append("the limits are small: the file's path is left out")
        header, lead = (), bare
        n_lead = len(table.encode(lead)) + MERGE_TOKENS if lead else 0
    return (header, lead, n_lead) if n_lead <= room else (header, b"", 0)


def _anchor(text: Text, cursor: int, room: int, table: TokenTable, notes: list[str]) -> tuple[int, int]:
    """The anchor and the tokens to send of what stands between it and the cursor: at most half of the room."""
    line_start = text.line_start(text.line_of(cursor))
    distance = cursor - line_start
    if distance <= MAX_ANCHOR_DISTANCE:
        n = _n_sent(text, line_start, cursor, table)
        if n <= room // 2:
            return line_start, n
        notes.append("the limits are small: the anchor is inside the line")
    else:
        notes.append(f"the cursor is {distance} bytes into its line: the anchor is inside the line")
    near = _NEAR_DISTANCE
    while near > 0:
        if near < distance:
            anchor = _word_start(text, text.floor(cursor - near), cursor)
            n = _n_sent(text, anchor, cursor, table)
            if n <= room // 2:
                return anchor, n
        near //= 2
    return cursor, 0


def _n_sent(text: Text, anchor: int, cursor: int, table: TokenTable) -> int:
    return len(table.encode(split_healing(to_prompt(text.slice(anchor, cursor), anchor == 0))[0]))


def _word_start(text: Text, start: int, end: int) -> int:
    """The first word that begins in the first half of [start, end), else start."""
    part = text.slice(start, text.floor(start + (end - start) // 2)).decode()
    match = _WORD_START.search(part)
    return start + len(part[: match.start()].encode()) if match else start


def _kept_start(snapshot: DocumentSnapshot, anchor: int, layout: Layout, previous: Plan | None) -> int | None:
    """Start of the previous plan's window, if it is a place to begin at and the text there is still the same."""
    if previous is None or previous.doc_id != snapshot.doc_id or previous.layout != layout or not previous.prefix:
        return None
    text, start = snapshot.text, previous.window_start
    if not 0 < start < anchor or text.floor(start) != start:
        return None
    line = text.line_of(start)
    # In a line that is too big alone windows begin at character borders, and may stay there.
    if text.line_start(line) != start and line != text.line_of(anchor):
        return None
    head = text.slice(start, text.floor(min(start + 256, anchor)))
    now, then = to_prompt(head, False), previous.prefix
    n = min(len(now), len(then), (now.find(b"\n") + 1) or len(now))
    return start if now[:n] == then[:n] else None
