"""Plans: limits are kept for any text, the window is stable, and the cost is bounded by the limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.fim import render
from context.plan import MERGE_TOKENS, NO_NAME, Fit, check, make_plan, shift
from context.prompt_form import to_prompt
from context.text import Edit, Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, FileName, Layout, Limits, Plan, Prompt, Tokenizer
from context.window import GRID_LINES
from tests.context.conftest import ANCHORED, CONTROL, decode, new_table
from tests.support.fixture import cursor_in
from tests.support.layouts import layout

FRAGMENTS = [
    "x = foo(bar)\n",
    "    return [a for a in b if a.is_ok]\r\n",
    "\n",
    "\r",
    "\r\n",
    "    ",
    "é漢😋 ",
    "<|fim_middle|><|fim_prefix|>",
    "\x00\x01\x7f",
    "\u2028",
    "word" * 40,
    "{}();,'\"" * 30,
    " " * 300,
    "minified;" * 400,
]
documents = st.tuples(
    st.sampled_from(["", "\ufeff"]), st.lists(st.sampled_from(FRAGMENTS), max_size=10), st.sampled_from([1, 1, 2, 30])
).map(lambda t: (t[0] + "".join(t[1]) * t[2])[:20_000])
limits_of = st.builds(Limits, st.sampled_from([0, 1, 8, 40, 300, 2000]), st.sampled_from([0, 1, 8, 64]), st.integers(4, 1200))


def snapshot_of(text: str | bytes, version: int = 1) -> DocumentSnapshot:
    return DocumentSnapshot("file:///w/a.py", version, "python", Text.of(text))


LIMITS = Limits(n_prefix=400, n_suffix=100, n_total=800)


def planned(text: str, limits: Limits = LIMITS, previous: Plan | None = None) -> Plan:
    plain, cursor = cursor_in(text)
    return make_plan(snapshot_of(plain), cursor, limits, new_table(), ANCHORED, previous=previous)


def check_prompt(plan: Plan, prompt: Prompt, text: Text, cursor: int, file: FileName = NO_NAME) -> None:
    """What holds for every prompt: its parts in the layout's order, each of them the text it should be, within the limits."""
    cursor, layout = text.floor(cursor), plan.layout
    lead = layout.lead.encode() if plan.n_lead or plan.limits.n_total > 100 else b""
    if plan.n_lead > len(lead):
        lead += layout.title.format(path=file.path, repository=file.repository).encode()
    assert len(lead) == plan.n_lead
    assert len(prompt.tokens) <= plan.limits.n_total
    assert plan.n_prefix <= plan.limits.n_prefix + (len(new_table().encode(lead)) + MERGE_TOKENS if lead else 0)
    assert plan.n_suffix <= plan.limits.n_suffix
    texts = {
        "header": (plan.n_header, None),
        "prefix": (plan.n_prefix, lead + plan.prefix),
        "suffix": (plan.n_suffix, plan.rest_of_line + plan.suffix_lines),
        "typed": (prompt.n_typed, prompt.typed[: len(prompt.typed) - len(prompt.heal)]),
    }
    at = 0
    for entry in layout.order:
        n, expected = texts[entry] if isinstance(entry, str) else (1, entry[0])
        part = prompt.tokens[at : at + n]
        at += n
        if isinstance(expected, int):
            assert part == (expected,)
        elif expected is not None:
            assert decode(part) == expected
        if entry == "typed":
            assert at - n == prompt.n_stable
    assert at == len(prompt.tokens)
    assert prompt.tokens[: prompt.n_stable] == plan.tokens
    assert plan.prefix + prompt.typed == to_prompt(text.slice(plan.window_start, cursor), plan.window_start == 0)
    assert prompt.typed.endswith(prompt.heal)
    assert to_prompt(text.slice(cursor, len(text)), cursor == 0).startswith(plan.rest_of_line + plan.suffix_lines)
    assert sum(p.n_tokens for p in prompt.pieces) == len(prompt.tokens)
    assert all(0 <= p.start <= p.end <= len(text) for p in prompt.pieces)


NAMED = replace(layout("anchored", bos=4), header=((5, "REPO"), "{repository}\n", (6, "FILE"), "{path}\n"))
TITLED = replace(layout("spm", bos=4), title="+++++ {path}\n", lead=" ")
FILE = FileName("src/é{path}/main.py", "some {repository}")


@settings(max_examples=200, deadline=None)
@given(
    documents,
    st.floats(0, 1),
    limits_of,
    st.sampled_from([ANCHORED, layout("psm", bos=4), layout("spm"), layout("ltr", bos=4), NAMED, TITLED]),
    st.sampled_from(["qwen2", "other"]),
)
def test_any_text_cursor_and_limits(document: str, at: float, limits: Limits, chosen: Layout, pre_type: str) -> None:
    snapshot, table = snapshot_of(document), new_table(pre_type)
    text = snapshot.text
    cursor = int(at * len(text))
    plan = make_plan(snapshot, cursor, limits, table, chosen, file=FILE)
    prompt = render(plan, snapshot, cursor, table)
    check_prompt(plan, prompt, text, cursor, FILE)
    fit, _ = check(plan, snapshot, cursor, table)
    assert fit is Fit.KEEP
    if chosen.name == "psm":
        assert plan.anchor == text.floor(cursor)
        assert prompt.typed == b""
    # the same plan again, with itself as the previous one: nothing moves
    assert make_plan(snapshot, cursor, limits, table, chosen, file=FILE, previous=plan) == plan or plan.window_start > 0
    line = text.line_of(text.floor(cursor))
    near = text.line_start(line) if plan.anchor == text.line_start(line) else plan.anchor
    if plan.prefix and text.line_start(text.line_of(plan.window_start)) != plan.window_start:
        # only a line that is too big alone is cut: the nearest one
        nearest = text.line_of(near - 1) if near == text.line_start(line) else line
        assert text.line_of(plan.window_start) == nearest


@settings(max_examples=60, deadline=None)
@given(text=documents, at=st.floats(0, 1), limits=limits_of)
def test_with_the_real_vocabulary(real_tokenizer: Tokenizer, text: str, at: float, limits: Limits) -> None:
    snapshot, table = snapshot_of(text), TokenTable(real_tokenizer, "qwen2")
    cursor = int(at * len(snapshot.text))
    chosen = layout("anchored", prefix=-1, suffix=-2, middle=-3)
    prompt = render(make_plan(snapshot, cursor, limits, table, chosen), snapshot, cursor, table)
    assert len(prompt.tokens) <= limits.n_total
    assert [t for t in prompt.tokens if t < 0] == [-1, -2, -3]


def test_marker_like_text_stays_text() -> None:
    plan = planned("a = '<|fim_suffix|>'\nb = '<|fim_middle|>$0'\n")
    assert [t for t in plan.tokens if t in CONTROL] == [1, 2, 3]
    assert plan.prefix == b"a = '<|fim_suffix|>'\n"


def test_small_file_goes_in_whole() -> None:
    plan = planned("import os\n\ndef f(a):\n    x = a$0.b\n    return x\n")
    assert (plan.window_start, plan.prefix) == (0, b"import os\n\ndef f(a):\n")
    assert (plan.rest_of_line, plan.suffix_lines) == (b".b", b"\n    return x\n")
    assert plan.anchor == plan.prefix.__len__()
    assert not plan.rest_is_cut


def test_empty_document() -> None:
    plan = planned("$0")
    assert plan.tokens == (1, 2, 3)


def test_nearest_lines_on_both_sides() -> None:
    before = "".join(f"v{i} = {i}\n" for i in range(200))
    after = "".join(f"w{i} = {i}\n" for i in range(200))
    plan = planned(f"{before}total = $0\n{after}", Limits(1500, 256, 448))
    assert len(plan.tokens) <= 448
    assert before.encode().endswith(plan.prefix)
    assert plan.prefix.startswith(b"v")
    assert ("\n" + after).encode().startswith(plan.suffix_lines)
    assert plan.suffix_lines.endswith(b"\n")
    assert plan.n_prefix > 100
    assert 60 < plan.n_suffix <= 112


def test_budget_is_used_at_the_top_of_a_file() -> None:
    after = "".join(f"w{i} = {i}\n" for i in range(200))
    plan = planned(f"$0\n{after}", Limits(1500, 256, 300))
    assert plan.n_suffix > 200


def test_a_line_that_is_too_big() -> None:
    plan = planned("x" * 5000 + "\n" + "y = $0" + "z" * 5000 + "\n", Limits(50, 20, 200))
    assert 20 < plan.n_prefix <= 50
    assert plan.rest_is_cut
    assert 10 < plan.n_suffix <= 20
    assert plan.suffix_lines == b""


def test_minified_line() -> None:
    line = "".join(f"var a{i}=function(b){{return b+{i}}};" for i in range(3000))
    plain = line[:50_000] + "$0" + line[50_000:]
    plan = planned(plain, Limits(400, 100, 800))
    assert 0 < 50_000 - plan.anchor <= 512
    assert plan.anchor - plan.window_start > 400
    assert any("inside the line" in note for note in plan.notes)
    later = planned(line[:50_040] + "$0" + line[50_040:], Limits(400, 100, 800), previous=plan)
    assert later.window_start == plan.window_start


def test_small_limits_move_the_anchor_into_the_line() -> None:
    plan = planned("value = some_function(argument, other_argument, another_argument) + $0\n", Limits(8, 4, 16))
    assert plan.anchor > 0
    assert len(plan.tokens) <= 16


def test_window_starts_on_a_coarse_grid() -> None:
    lines = [f"value_{i} = compute({i})\n" for i in range(1000)]
    starts = []
    for n in range(900, 1000):
        plan = planned("".join(lines[:n]) + "$0\n", Limits(1500, 256, 2000))
        first = lines.index(plan.prefix.decode().splitlines(keepends=True)[0])
        assert plan.prefix.decode() == "".join(lines[first:n])
        assert first % (GRID_LINES // 2) == 0
        assert 0.4 * 1500 <= plan.n_prefix <= 0.6 * 1500
        starts.append(first)
    assert len(set(starts)) <= 100 // (GRID_LINES // 2) + 2
    assert any(first % GRID_LINES == 0 for first in starts)
    assert starts == sorted(starts)


@pytest.mark.parametrize("pre_type", ["qwen2", "other"])
def test_cost_is_bounded_by_the_limits(pre_type: str) -> None:
    line = "    some_name = other_name.method(argument)\n"
    snapshot = snapshot_of(line * 40_000)
    limits = Limits(1500, 256, 2000)
    for cursor in (len(line) * 20_000 + 17, len(snapshot.text)):
        table = new_table(pre_type)
        make_plan(snapshot, cursor, limits, table, ANCHORED)
        assert 0 < table.n_encoded_bytes < 16 * (1500 + 256)


def test_cost_is_bounded_in_a_minified_file() -> None:
    snapshot = snapshot_of("".join(f"a{i}=function(b){{return b+{i}}};" for i in range(60_000)))
    table = new_table()
    make_plan(snapshot, 1_000_000, Limits(1500, 256, 2000), table, ANCHORED)
    assert table.n_encoded_bytes < 40 * (1500 + 256)


def test_window_stands_still_while_typing_lines() -> None:
    limits = Limits(1500, 256, 2400)
    table = new_table()
    text = Text.of("".join(f"value_{i} = compute({i})\n" for i in range(400)))
    at = text.line_start(300)
    plan: Plan | None = None
    starts = []
    n_tokens = 0
    for i in range(200):
        line = f"    new_{i} = value_{i}.call(item)\n".encode()
        n_tokens += len(table.encode(line))
        edit = Edit(at, at, line)
        text = text.edit(edit.start, edit.end, edit.new)
        at += len(line)
        snapshot = DocumentSnapshot("d", i, "python", text)
        plan = make_plan(snapshot, at, limits, table, ANCHORED, previous=shift(plan, edit) if plan else None)
        starts.append(plan.window_start)
        assert plan.n_prefix <= limits.n_prefix
    moves = sum(a != b for a, b in pairwise(starts))
    assert moves <= n_tokens / (0.35 * 1500)
    assert starts == sorted(starts)


def test_window_is_kept_over_an_edit_before_it() -> None:
    before = "".join(f"value_{i} = compute({i})\n" for i in range(1000))
    table = new_table()
    text = Text.of(before)
    plan = make_plan(DocumentSnapshot("d", 1, "python", text), len(text), Limits(1500, 256, 2000), table, ANCHORED)
    edit = Edit(10, 10, b"inserted\n")
    after = DocumentSnapshot("d", 2, "python", text.edit(10, 10, edit.new))
    moved = shift(plan, edit)
    assert (moved.window_start, moved.anchor) == (plan.window_start + 9, plan.anchor + 9)
    assert check(moved, after, len(after.text))[0] is Fit.KEEP
    assert check(plan, after, len(after.text))[0] is Fit.REPLAN
    again = make_plan(after, len(after.text), Limits(1500, 256, 2000), table, ANCHORED, previous=moved)
    assert again.tokens == plan.tokens


def test_larger_limits_are_used_in_spite_of_a_small_plan_before() -> None:
    before = "".join(f"value_{i} = compute({i})\n" for i in range(1000))
    small = planned(before + "$0", Limits(200, 50, 300))
    large = planned(before + "$0", Limits(1500, 256, 2000), previous=small)
    assert large.n_prefix > 3 * small.n_prefix


def test_shift_leaves_other_edits_alone() -> None:
    before = "".join(f"value_{i} = compute({i})\n" for i in range(1000))
    plan = planned(before + "$0")
    assert plan.window_start > 0
    assert shift(plan, Edit(plan.window_start - 1, plan.window_start + 1, b"")) is plan
    assert shift(plan, Edit(plan.anchor, plan.anchor, b"x")) is plan
    whole = planned("a\n$0")
    assert shift(whole, Edit(0, 0, b"x")) is whole


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 400), st.integers(0, 30), st.sampled_from([b"", b"x", b"new line\n", b"\r\n"]))
def test_shift_equals_planning_there(at: int, n: int, new: bytes) -> None:
    text = Text.of("".join(f"value_{i} = compute({i})\n" for i in range(300)))
    snapshot = DocumentSnapshot("d", 1, "python", text)
    plan = make_plan(snapshot, len(text), Limits(300, 50, 500), new_table(), ANCHORED)
    start = at * plan.window_start // 400
    edit = Edit(start, min(start + n, plan.window_start), new)
    after = DocumentSnapshot("d", 2, "python", text.edit(edit.start, edit.end, edit.new))
    moved = shift(plan, edit)
    assert to_prompt(after.text.slice(moved.window_start, moved.anchor), moved.window_start == 0) == plan.prefix
    assert check(moved, after, len(after.text))[0] is Fit.KEEP


def test_what_makes_a_window_stand() -> None:
    """After a line was inserted above, the old window begins off the grid: only the previous plan explains a start there."""
    lines = [f"value_{i} = compute({i})\n" for i in range(1000)]
    table = new_table()
    limits = Limits(1500, 256, 2000)

    def plan(text: str, previous: Plan | None, doc_id: str = "d") -> Plan:
        data = text.encode()
        snapshot = DocumentSnapshot(doc_id, 1, "python", Text.of(data))
        return make_plan(snapshot, len(data), limits, table, ANCHORED, previous=previous)

    moved = shift(plan("".join(lines), None), Edit(0, 0, b"new\n"))
    text = "new\n" + "".join(lines)
    assert plan(text, moved).window_start == moved.window_start
    assert plan(text, None).window_start != moved.window_start
    assert plan(text, moved, "other").window_start != moved.window_start
    head, tail = text.encode()[: moved.window_start].decode(), text.encode()[moved.window_start :].decode()
    assert plan(head + "V" + tail[1:], moved).window_start != moved.window_start  # another line stands there
    assert plan(head[:-1] + " " + tail, moved).window_start != moved.window_start  # no line begins there
    assert plan(head + tail + "x = 1\n" * 20, moved).window_start == moved.window_start
    assert plan(head + tail + "x = 1\n" * 2000, moved).window_start > moved.window_start


def test_going_up_moves_the_window() -> None:
    before = "".join(f"value_{i} = compute({i})\n" for i in range(1000))
    snapshot, table, limits = snapshot_of(before), new_table(), Limits(1500, 256, 2000)
    plan = make_plan(snapshot, len(before), limits, table, ANCHORED)
    near = make_plan(snapshot, len(before) - 100, limits, table, ANCHORED, previous=plan)
    assert near.window_start == plan.window_start
    up = make_plan(snapshot, plan.window_start + 300, limits, table, ANCHORED, previous=plan)
    assert up.window_start < plan.window_start
    assert up.n_prefix >= 0.4 * 1500
