"""When a plan still fits: typing, auto-closed pairs, overtyping, Enter between brackets, and everything else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.fim import render
from context.plan import Fit, check, make_plan
from context.prompt_form import to_prompt
from context.text import Text
from context.types import DocumentSnapshot, Layout, Limits, Plan
from tests.context.conftest import ANCHORED, decode, new_table
from tests.support.fixture import cursor_in
from tests.support.layouts import layout

LIMITS = Limits(400, 100, 800)
PAIRS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'"}


def fit(before: str, after: str, *, chosen: Layout = ANCHORED, eol: str = "\n", limits: Limits = LIMITS) -> tuple[Fit, str]:
    """Plan at the first fixture's cursor, check at the second's."""
    plan = plan_at(before.replace("\n", eol), chosen, limits)
    text, cursor = cursor_in(after.replace("\n", eol))
    return check(plan, DocumentSnapshot("d", 2, "python", Text.of(text)), cursor, new_table())


def plan_at(fixture: str, chosen: Layout = ANCHORED, limits: Limits = LIMITS) -> Plan:
    text, cursor = cursor_in(fixture)
    return make_plan(DocumentSnapshot("d", 1, "python", Text.of(text)), cursor, limits, new_table(), chosen)


KEPT = [
    ("a\n$0\nb\n", "a\n$0\nb\n"),
    ("a\n$0\nb\n", "a\nfoo$0\nb\n"),
    ("a\nfoo$0\nb\n", "a\n$0\nb\n"),
    ("a\n$0\nb\n", "a\nfoo(x$0)\nb\n"),
    ("a\n$0\nb\n", "a\nfoo([{\"'$0'\"}])\nb\n"),
    ("a\nx = $0;\nb\n", "a\nx = foo($0);\nb\n"),
    ("a\nx = $0y\nb\n", "a\nx = (  $0)y\nb\n"),
    ("a\n$0\nb\n", "a\nfoo\n    bar$0\nb\n"),
    ("a\n$0", "a\nfoo\nbar$0"),
    ("$0", "x$0"),
    ("a\n    $0", "a\n$0"),
]


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("before", "after"), KEPT)
def test_kept(before: str, after: str, eol: str) -> None:
    assert fit(before, after, eol=eol)[0] is Fit.KEEP


MOVED = [
    ("a\nfoo($0)\nb\n", "a\nfoo(x)$0\nb\n"),
    ("a\nfoo($0);\nb\n", "a\nfoo(x)$0;\nb\n"),
    ("a\nfoo($0)\nb\n", "a\nfoo(x)[$0]\nb\n"),
    ("a\nfoo($0)\nb\n", "a\nfoo(\n    $0\n)\nb\n"),
    ("a\n$0\nb\n", "a\nfoo = {\n    $0\n}\nb\n"),
    ("a\n$0\nb\n", "a\nfoo({\n    $0\n});\nb\n"),
    ("a\nfoo($0) + x\nb\n", "a\nfoo(\n    $0\n) + x\nb\n"),
    ("a\n$0\nb\n", "a\nfoo = [\n    [\n        $0\n    ]\n]\nb\n"),
    ("a\nfoo($0)", "a\nfoo(\n    $0\n)"),
]


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("before", "after"), MOVED)
def test_used_but_prepared_anew(before: str, after: str, eol: str) -> None:
    assert fit(before, after, eol=eol)[0] is Fit.MOVE_SOON


GONE = [
    ("a\n$0\nb\n", "ax\n$0\nb\n", "text before the anchor changed"),
    ("a\nx\n$0\nb\n", "a\n$0\nx\nb\n", "cursor left"),
    ("a\n$0\nb\n", "$0a\n\nb\n", "cursor left"),
    ("a\n$0\nb\n", "a\n\nb$0\n", "lines after the cursor changed"),
    ("a\n$0\nb\nc\n", "a\n$0\nb\nd\n", "lines after the cursor changed"),
    ("a\n$0\nb\n", "a\n$0\nx\nb\n", "lines after the cursor changed"),
    ("a\n$0\nb\n", "a\n$0\n\nb\n", "lines after the cursor changed"),
    ("a\n$0\nb\n", "a\n$0\n", "lines after the cursor changed"),
    ("a\n$0\nb\n", "a\nfoo$0 bar\nb\n", "text behind the cursor changed"),
    ("a\n$0\nb\n", "a\nf$0oo\nb\n", "text behind the cursor changed"),
    ("a\n$0x\nb\n", "a\n$0\nb\n", "text behind the cursor changed"),
    ("a\n$0) + x\nb\n", "a\n$0) + y\nb\n", "text behind the cursor changed"),
    ("a\n$0\nb\n", "a\nfoo(\n$0\n    x)\nb\n", "lines after the cursor changed"),
    ("a\n$0\nb\n", "a\n$0" + "x" * 5000 + "\nb\n", "text behind the cursor changed"),
    ("a\n$0\n", "a\n" + "x" * 10_000 + "$0\n", "cursor left"),
]


@pytest.mark.parametrize("eol", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(("before", "after", "reason"), GONE)
def test_replanned(before: str, after: str, reason: str, eol: str) -> None:
    assert fit(before, after, eol=eol) == (Fit.REPLAN, reason)


def test_only_what_is_in_the_prompt_counts() -> None:
    tail = "".join(f"line {i}\n" for i in range(300))
    limits = Limits(50, 20, 100)
    assert fit("a\n$0\n" + tail, "a\n$0\n" + tail + "more\n", limits=limits)[0] is Fit.KEEP
    assert fit("a\n$0\n" + tail, "a\n$0\n" + tail.replace("line 250", "x"), limits=limits)[0] is Fit.KEEP
    assert fit("a\n$0\n" + tail, "a\n$0\n" + tail.replace("line 0", "x"), limits=limits)[0] is Fit.REPLAN


def test_a_cut_rest_of_line() -> None:
    rest = "x" * 3000
    limits = Limits(50, 20, 100)
    assert plan_at(f"a\n$0{rest}\n", limits=limits).rest_is_cut
    assert fit(f"a\n$0{rest}\n", f"a\nfoo($0){rest}\n", limits=limits)[0] is Fit.KEEP
    assert fit(f"a\n$0{rest}\n", f"a\n$0{rest}y\n", limits=limits)[0] is Fit.KEEP
    assert fit(f"a\n$0{rest}\n", f"a\n$0y{rest}\n", limits=limits)[0] is Fit.REPLAN


def test_another_document() -> None:
    plan = plan_at("a\n$0\n")
    assert check(plan, DocumentSnapshot("e", 1, "python", Text.of("a\n\n")), 2)[0] is Fit.REPLAN


@pytest.mark.parametrize("line", ["foo(x$0)\nb", "foo($0))\nb", "foo$0()\nb", "foo()$0\nb", "foo($0)\nc"])
def test_the_plain_layout_keeps_nothing(line: str) -> None:
    assert fit("a\nfoo($0)\nb\n", "a\nfoo($0)\nb\n", chosen=layout("psm"))[0] is Fit.KEEP
    assert fit("a\nfoo($0)\nb\n", f"a\n{line}\n", chosen=layout("psm"))[0] is Fit.REPLAN


def test_typed_text_that_outgrows_the_limits() -> None:
    limits = Limits(100, 20, 60)
    words = "ab " * 60
    plan = plan_at("first = 1\n$0\nlast = 2\n", limits=limits)
    table = new_table()
    seen = []
    for n in range(len(words)):
        text, cursor = cursor_in(f"first = 1\n{words[:n]}$0\nlast = 2\n")
        snapshot = DocumentSnapshot("d", 2, "python", Text.of(text))
        found, _ = check(plan, snapshot, cursor, table)
        if found is not Fit.REPLAN:
            assert len(render(plan, snapshot, cursor, table).tokens) <= limits.n_total
        assert severity(check(plan, snapshot, cursor)[0]) >= severity(found)  # without a table it can only be careful
        seen.append(found)
    assert list(dict.fromkeys(seen)) == [Fit.KEEP, Fit.MOVE_SOON, Fit.REPLAN]


def severity(fit: Fit) -> int:
    return list(Fit).index(fit)


class Typist:
    """Types as an editor with auto-closing pairs does: closers appear behind the cursor and are overtyped."""

    def __init__(self, text: str, cursor: int, eol: str) -> None:
        self.before, self.after = text[:cursor], text[cursor:]
        self.closers: list[str] = []
        self.eol = eol

    def key(self, char: str) -> None:
        if char == "\n":
            self.before += self.eol
            self.closers.clear()
        elif self.closers and char == self.closers[-1] and self.after.startswith(char):
            self.before, self.after = self.before + char, self.after[1:]
            self.closers.pop()
        elif char in PAIRS:
            self.before += char
            self.after = PAIRS[char] + self.after
            self.closers.append(PAIRS[char])
        else:
            self.before += char

    def snapshot(self) -> tuple[DocumentSnapshot, int]:
        text = Text.of(self.before + self.after)
        return DocumentSnapshot("d", 2, "python", text), len(self.before.encode())


lines = st.lists(
    st.sampled_from(["foo", " = ", "bar(x)", "['k']", '"text"', "{1: (2, [3])}", ".call()", ", ", "é", " 漢字", ": ", "    "]),
    min_size=1,
    max_size=10,
).map("".join)


@settings(max_examples=100, deadline=None)
@given(lines, lines, st.sampled_from(["", "y", ")", "; z"]), st.sampled_from(["\n", "\r\n"]))
def test_typing_keeps_the_plan_and_tokens_grow_by_few(one: str, two: str, rest: str, eol: str) -> None:
    head = f"import os{eol}{eol}def f():{eol}    "
    typist = Typist(f"{head}{rest}{eol}{eol}after = 1{eol}", len(head), eol)
    table = new_table()
    snapshot, cursor = typist.snapshot()
    plan = make_plan(snapshot, cursor, Limits(400, 100, 1200), table, ANCHORED)
    last = render(plan, snapshot, cursor, table)
    for char in f"{one}\n{two}":
        n_encoded = table.n_encoded_bytes
        typist.key(char)
        snapshot, cursor = typist.snapshot()
        found, reason = check(plan, snapshot, cursor, table)
        if char == "\n" and typist.after[:1] in tuple(")]}\"'"):
            return  # the next line begins with a closer that is not the editor's: another test
        assert found is Fit.KEEP, reason
        prompt = render(plan, snapshot, cursor, table)
        common = next((i for i, (a, b) in enumerate(zip(prompt.tokens, last.tokens, strict=False)) if a != b), None)
        same = min(len(prompt.tokens), len(last.tokens)) if common is None else common
        assert same >= prompt.n_stable
        assert len(prompt.tokens) - same <= 4
        assert table.n_encoded_bytes - n_encoded <= len(prompt.typed)
        assert decode(prompt.tokens[prompt.n_stable :]) + prompt.heal == prompt.typed
        last = prompt


small = st.lists(st.sampled_from(["a", "\n", "\n", "\r\n", ")", "]", " ", "x ", "é"]), max_size=10).map("".join)


@settings(max_examples=300, deadline=None)
@given(small, small, small, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_what_is_kept_is_there(before: str, after: str, new: str, a: float, b: float, c: float) -> None:
    """Whatever one edit did: a plan that may be used has its prefix before the cursor, its suffix behind (closers aside)."""
    data = (before + after).encode()
    plan = plan_at(before + "$0" + after)
    text = Text.of(data)
    start, end = sorted((text.floor(int(a * len(data))), text.floor(int(b * len(data)))))
    text = text.edit(start, end, new.encode())
    cursor = text.floor(int(c * len(text)))
    found, _ = check(plan, DocumentSnapshot("d", 2, "python", text), cursor, new_table())
    now_before = to_prompt(text.slice(0, cursor), True)
    now_behind = to_prompt(text.slice(cursor, len(text)), cursor == 0)
    if found is Fit.REPLAN:
        stands = text.floor(plan.anchor) == plan.anchor and to_prompt(text.slice(0, plan.anchor), True) == plan.prefix
        is_same = now_behind == plan.rest_of_line + plan.suffix_lines
        assert not (stands and is_same and cursor >= plan.anchor)
        return
    assert now_before.startswith(plan.prefix)
    frozen = plan.rest_of_line + plan.suffix_lines
    closers = b")]}>\"'`; \t"
    n_gone = range(len(plan.rest_of_line) - len(plan.rest_of_line.lstrip(closers)) + 1)
    n_new = range(len(now_behind) - len(now_behind.lstrip(closers + b"\r\n")) + 1)
    fitting = [(i, k) for i in n_new for k in n_gone if now_behind.startswith(frozen[k:], i)]
    assert fitting
    if found is Fit.KEEP:
        assert any(k == 0 and b"\n" not in now_behind[:i] for i, k in fitting)
