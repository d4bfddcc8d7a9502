"""Warming prompts in virtual time, on the strict fake: when, how much, and why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context.text import Edit, Text
from context.types import DocumentSnapshot
from inference.types import Costs, GenerationRequest, Priority
from lsp_server.types import CompletionQuery
from lsp_server.warm.allowance import MINUTE_S
from lsp_server.warm.power import ASK_EVERY_S
from tests.lsp_server.test_session import LINES, VOCAB, Bench, virtual
from tests.support.virtual import InlineExecutor, run_virtual

COLD: dict[str, Any] = {"cold_budget_ms": 1500, "typed_through": False, "adopt_ms": 0}
IDLE_S = 0.7


def background(b: Bench) -> list[GenerationRequest]:
    return [request for request in b.client.requests if not request.priority.is_foreground]


def n_running(b: Bench) -> int:
    return sum(not run.priority.is_foreground for run in b.client.engine._runs)


async def rest(b: Bench, seconds: float = IDLE_S + 0.1) -> None:
    """A pause that is long enough to warm what there is to warm."""
    await asyncio.sleep(seconds)
    await b.client.idle()


def other(b: Bench, name: str, text: str) -> DocumentSnapshot:
    return DocumentSnapshot(f"file:///{name}", 1, "python", Text.of(text))


async def ask(b: Bench, snapshot: DocumentSnapshot, offset: int) -> dict[str, Any]:
    await b.completer.complete(CompletionQuery(snapshot, offset, False, None, b.now))
    return b.record


def forget(b: Bench) -> None:
    """As if others had used the cache meanwhile."""
    for sequence in b.client.engine.kv.sequences:
        if sequence.is_idle:
            b.client.engine.kv.truncate(sequence, 0)


class Late(InlineExecutor):
    """Runs what is submitted when it is let go."""

    def __init__(self) -> None:
        self.held: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.held.append((future, lambda: fn(*args, **kwargs)))
        return future

    def let_go(self) -> None:
        for future, run in self.held:
            future.set_result(run())


class Typist:
    """A scripted session: what somebody does, and what the keys behind their pauses found."""

    def __init__(self, b: Bench) -> None:
        self.b = b
        self.shares: list[float] = []  # of the prompt that was resident, at each key after a pause
        self.is_rested = False

    async def key(self, text: str, behind: str = "") -> None:
        self.b.type(text, behind)
        await self.b.ask()
        record = self.b.record
        if self.is_rested:
            self.shares.append(record["n_reused_tokens"] / record["n_prompt_tokens"])
        self.is_rested = False
        await asyncio.sleep(0.12)

    async def burst(self, text: str) -> None:
        for character in text:
            await self.key(character)

    async def pause(self) -> None:
        await rest(self.b)
        self.is_rested = True


async def write_a_file(b: Bench) -> list[float]:
    t = Typist(b)
    await t.pause()
    await t.burst("total = re")
    await t.pause()
    await t.burst("ad(")
    await t.key("item", ")")
    await t.pause()
    await t.key("\n")  # Enter, and a pause
    await t.pause()
    await t.burst("value = index")
    b.delete(5)
    await t.pause()
    await t.burst("number")
    # a suggestion is taken; the editor tells of the text alone
    b.type("\nvalue = read(item, 77)\ntotal = total + value")
    await t.pause()
    await t.burst(" + 1")
    # away, with an edit there that nobody asks about; then elsewhere by a request
    b.move(40)
    b.type("  # foo")
    await t.pause()
    await t.burst(" bar")
    b.move(300)
    await t.key(" ")
    await t.pause()
    await t.burst("+ index")
    # the text before the cursor and the lines behind it change
    start, end = b.text.line_start(295), b.text.line_start(297)
    edit = Edit(start, end, b"foo = bar\n" * 4)
    b.text, b.version = b.text.edit(edit.start, edit.end, edit.new), b.version + 1
    b.cursor = edit.start + len(edit.new)
    b.completer.changed(b.snapshot, (edit,))
    await t.pause()
    await t.burst("for")
    b.type(" item in range(number):\n    " + "print(item)\n    " * 30)  # a large paste
    await t.pause()
    await t.burst("print")
    return t.shares


@virtual
async def test_the_key_after_an_idle_moment_finds_its_prompt_warm() -> None:
    for layout in ("anchored", "spm", "ltr"):
        b = Bench(LINES[:6000], LINES, script="zz\n", layout=layout, **COLD)
        shares = await write_a_file(b)
        assert len(shares) == 10
        assert min(shares[1:]) >= 0.95, (layout, shares)  # of the first key's place nobody knew anything


@virtual
async def test_without_it_such_keys_are_cold() -> None:
    b = Bench(LINES[:6000], LINES, script="zz\n", background="off", **COLD)
    shares = await write_a_file(b)
    assert sum(share < 0.95 for share in shares) >= 3
    assert not background(b)


@virtual
async def test_where_the_prefix_ends_at_the_cursor_it_is_warmed_up_to_there() -> None:
    b = Bench(LINES[:6000], LINES, layout="psm", **COLD)
    b.type("total = foo(")
    await rest(b)
    b.type("x")
    await b.ask()
    prefix = next(p["n_tokens"] for p in b.record["pieces"] if p["name"] == "prefix")
    assert b.record["n_reused_tokens"] >= 0.95 * prefix > 300
    (warmed,) = background(b)
    assert VOCAB.control["<|fim_suffix|>"] not in warmed.tokens and len(warmed.tokens) > 0.95 * prefix
    n_behind = sum(p["n_tokens"] for p in b.record["pieces"]) - prefix
    assert b.record["n_evaluated_tokens"] <= n_behind + 5


# -- when


@virtual
async def test_it_begins_idle_ms_after_the_last_edit_or_request() -> None:
    for idle_ms in (700, 2000):
        b = Bench(LINES, LINES, idle_ms=idle_ms, **COLD)
        for _ in range(5):
            b.type("x")
            await asyncio.sleep(idle_ms / 1000 - 0.1)
        assert not background(b)
        await asyncio.sleep(0.11)
        assert [r.priority for r in background(b)] == [Priority.PREFETCH]


@virtual
async def test_after_enter_and_after_an_accepted_text_it_begins_at_once() -> None:
    b = Bench(LINES + "x = ", LINES, script="total\n", cold_budget_ms=0, background="on")
    await rest(b)
    await b.ask()
    await rest(b)
    n = len(background(b))
    b.type("number\n")
    await asyncio.sleep(0.06)
    assert len(background(b)) == n + 1


@virtual
async def test_an_edit_that_inserts_what_was_offered_is_an_accept() -> None:
    for line, is_whole in (("x = ", True), ("x = ", False), ("", True)):
        b = Bench(LINES + line, LINES, script="total\n", cold_budget_ms=0)
        (item,) = (await b.ask()).items
        await rest(b)
        forget(b)
        above = Edit(100, 100, b"  # moves it")
        b.text, b.version = b.text.edit(above.start, above.end, above.new), b.version + 1
        b.completer.changed(b.snapshot, (above,))
        n_moved = len(above.new)
        new = item.text.encode() if is_whole else item.text.encode()[:-1]
        edit = Edit(item.start + n_moved, item.end + n_moved, new)
        b.text, b.version = b.text.edit(edit.start, edit.end, edit.new), b.version + 1
        b.completer.changed(b.snapshot, (edit,))
        await asyncio.sleep(0.06)
        assert [r.priority for r in background(b)] == ([Priority.PREFETCH] if is_whole else [])


@virtual
async def test_idle_counts_from_the_request() -> None:
    b = Bench(LINES + "x = ", LINES, script="total\n", cold_budget_ms=0)
    await b.ask()
    await rest(b)
    b.type("t")
    await asyncio.sleep(0.5)
    asked = b.now
    await b.ask()
    await b.client.idle()
    forget(b)
    await asyncio.sleep(asked + IDLE_S - 0.01 - b.now)
    assert not background(b)
    await asyncio.sleep(0.02)
    assert background(b)


@virtual
async def test_the_editor_may_tell_that_a_text_was_accepted() -> None:
    for tells in (True, False):
        b = Bench(LINES + "x = ", LINES, cold_budget_ms=0)
        b.type("something else")
        if tells:
            b.completer.accepted(1)
        await asyncio.sleep(0.06)
        assert bool(background(b)) is tells


@virtual
async def test_a_request_that_comes_with_enter_goes_first() -> None:
    b = Bench(LINES, LINES, **COLD)
    b.type("total\n")
    await b.ask()
    assert b.client.requests[0].priority is Priority.TYPING


@virtual
async def test_nothing_begins_while_somebody_waits_and_the_answer_begins_it_anew() -> None:
    b = Bench(LINES + "x = ", LINES, script="foo " * 60, max_tokens=100, cold_budget_ms=0, reply_deadline_ms=0)
    task = b.start(invoked=True)
    await asyncio.sleep(0.01)
    b.completer.changed(b.snapshot, ())  # an edit that changes nothing: the timer runs while the request does
    await asyncio.sleep(2.0)
    assert not task.done() and not background(b)
    await task
    forget(b)
    await asyncio.sleep(0.06)
    assert background(b)


# -- where


@virtual
async def test_a_short_file_that_is_opened_is_read_from_its_beginning() -> None:
    b = Bench(LINES[:3000], "", script="zz\n", **COLD)
    await rest(b)
    (head,) = background(b)
    assert head.priority is Priority.BACKGROUND
    assert "after" not in b.record and b.now < 30
    for line in (100, 30):
        b.move(line)
        await b.ask()
        prefix = next(p for p in b.record["pieces"] if p["name"] == "prefix")
        assert prefix["start"] == 0 and b.record["n_reused_tokens"] >= 0.95 * prefix["n_tokens"] > 100
        assert b.record["n_evaluated_tokens"] <= 150
        if line == 100:
            told = b.record["warm_up"]
            assert told.startswith(f"when the document was opened: {len(head.tokens)} of {len(head.tokens)} prompt tokens")


@virtual
async def test_of_a_long_file_that_is_opened_nothing_is_guessed() -> None:
    b = Bench(LINES, "", **COLD)
    await rest(b)
    assert not background(b)
    await b.ask()
    assert b.record["warm_up"].startswith("not warmed when the document was opened: where the cursor is decides")


@virtual
async def test_a_document_that_is_opened_again_is_warmed_where_one_was() -> None:
    b = Bench(LINES[:6000], LINES, script="zz\n", **COLD)
    await b.ask()
    b.completer.closed("file:///a.py")
    b.completer.opened(b.snapshot)
    await rest(b)
    b.type("v")
    await b.ask()
    assert b.record["n_reused_tokens"] >= 0.95 * b.record["n_prompt_tokens"] > 300
    # shorter now
    b.completer.closed("file:///a.py")
    b.text, b.cursor = Text.of("é" * 40), 80
    b.completer.opened(b.snapshot)
    await rest(b)
    assert (await b.ask()).reason


@virtual
async def test_only_the_last_of_many_opened_documents_is_warmed() -> None:
    b = Bench(LINES[:2000], "", **COLD)
    for i in range(20):
        b.completer.opened(other(b, f"{i}.py", f"name{i} = 1\n" * 40))
    await rest(b)
    (head,) = background(b)
    assert b"name19" in b.client.vocab.text(head.tokens)


@virtual
async def test_the_document_in_use_is_warmed_and_then_the_one_before() -> None:
    b = Bench(LINES, LINES, script="zz\n", prefix_tokens=300, suffix_tokens=60, idle_ms=300, **COLD)
    await b.ask()  # cold: the full prompt is prepared
    assert n_running(b) == 1
    second, third = (other(b, name, text * 200) for name, text in (("b.py", "foo = bar\n"), ("c.py", "len = key\n")))
    await ask(b, second, len(second.text) // 2)
    await rest(b, MINUTE_S)  # whatever of it the first minute's budget does not allow
    for snapshot, offset in ((b.snapshot, b.cursor), (second, len(second.text) // 2)):
        record = await ask(b, snapshot, offset)
        n_tokens = sum(p["n_tokens"] for p in record["pieces"])
        assert n_tokens > 200 and record["n_evaluated_tokens"] <= 1, record
    # of a document that was only opened in between, nothing is known; the two that were worked in stay the ones
    b.completer.opened(third)
    await rest(b, MINUTE_S)
    assert not any(b"len = key" in b.client.vocab.text(r.tokens) for r in background(b))


@virtual
async def test_documents_that_are_only_looked_at_do_not_push_out_the_one_worked_in() -> None:
    b = Bench(LINES, LINES, **COLD)
    b.type("x")
    for name in ("b.py", "c.py"):
        b.completer.opened(other(b, name, "foo = bar\n" * 400))  # too long to begin with
    await rest(b)
    assert [r.priority for r in background(b)] == [Priority.PREFETCH]


@virtual
async def test_no_third_document_is_warmed() -> None:
    b = Bench(LINES, LINES, prefix_tokens=100, suffix_tokens=30, **COLD)
    for name in ("b.py", "c.py", "d.py"):
        snapshot = other(b, name, f"{name} = bar\n" * 100)
        b.completer.opened(snapshot)
        b.completer.changed(snapshot, (Edit(500, 500, b""),))
    await rest(b, 10.0)
    warmed = [name for r in background(b) for name in (b"b.py", b"c.py", b"d.py") if name in b.client.vocab.text(r.tokens)]
    assert warmed == [b"d.py", b"c.py"]


@virtual
async def test_one_prompt_at_a_time() -> None:
    b = Bench(LINES, LINES, script="zz\n", **COLD)
    second = other(b, "b.py", "foo = bar\n" * 400)
    most = 0
    for _ in range(4):
        b.type("x")
        await asyncio.sleep(IDLE_S + 0.5)
        most = max(most, n_running(b))
        b.completer.changed(second, (Edit(100, 100, b""),))
        await asyncio.sleep(IDLE_S + 0.5)
        most = max(most, n_running(b))
    assert most == 1


# -- how much


@virtual
async def test_nothing_is_prepared_twice() -> None:
    b = Bench(LINES + "x = total + va", LINES, script="zz\n", **COLD)
    await b.ask()
    await rest(b)
    n = len(background(b))
    for _ in range(5):
        b.completer.accepted(1)
        await rest(b)
        b.completer.changed(b.snapshot, ())
        await rest(b)
    assert len(background(b)) == n == 1
    await b.ask()
    assert "prompt tokens were in the cache" in b.record["warm_up"]
    # a full prompt that is resident is used, even if nobody remembers having prepared it
    b.completer.configure(replace(b.config, server=replace(b.config.server, max_tokens=63)))
    b.move(100)
    await b.ask()
    await rest(b, MINUTE_S)
    assert sum(p["n_tokens"] for p in b.record["pieces"]) < 160 < 300 < len(background(b)[-1].tokens)
    n = len(background(b))
    b.completer._sessions["file:///a.py"].ahead.forget()
    b.completer.changed(b.snapshot, ())
    await rest(b)
    b.type("z")
    await b.ask()
    assert len(background(b)) == n and sum(p["n_tokens"] for p in b.record["pieces"]) > 300
    # while it is under way, quiet moments begin no second one
    await rest(b, MINUTE_S)
    n = len(background(b))
    b.move(300)
    b.type("y")
    for _ in range(5):
        await asyncio.sleep(IDLE_S + 0.1)
        b.completer.accepted(1)
    assert len(background(b)) == n + 1 and n_running(b) == 1


@virtual
async def test_what_no_longer_fits_the_text_is_cancelled() -> None:
    b = Bench(LINES, LINES, **COLD)
    b.type("x")
    await asyncio.sleep(IDLE_S + 0.5)
    assert n_running(b) == 1
    b.type("y")  # more of the same place: goes on
    await asyncio.sleep(0.4)
    assert n_running(b) == 1
    start = b.text.line_start(398)
    edit = Edit(start, start + 3, b"foo")
    b.text, b.version = b.text.edit(edit.start, edit.end, edit.new), b.version + 1
    b.completer.changed(b.snapshot, (edit,))
    await asyncio.sleep(0.4)
    assert n_running(b) == 0 and b.client.counters().background < 300
    await b.ask()
    assert "then it was ended" in b.record["warm_up"]


@virtual
async def test_a_request_is_submitted_before_what_it_overtakes_is_cancelled() -> None:
    b = Bench(LINES[:3000], "", script="zz\n", cold_budget_ms=0)
    happened: list[tuple[str, int]] = []
    b.client.on_submit = lambda request: happened.append(("submit", request.request_id))
    cancel = b.client.cancel

    def cancelled(request_id: int) -> None:
        happened.append(("cancel", request_id))
        cancel(request_id)

    b.client.cancel = cancelled  # type: ignore[method-assign]
    await asyncio.sleep(IDLE_S + 0.5)
    assert n_running(b) == 1
    await b.ask()
    assert happened[:3] == [("submit", 1), ("submit", 2), ("cancel", 1)]
    # what the background had evaluated was used, and nothing evaluated twice
    counters = b.client.counters()
    assert counters.background + counters.prompt <= b.record["n_prompt_tokens"] + 2


@virtual
async def test_a_beginning_is_of_no_use_any_more_when_the_cursor_is_known() -> None:
    b = Bench(LINES[:3000], "", script="zz\n", cold_budget_ms=0)
    await asyncio.sleep(IDLE_S + 0.5)
    assert n_running(b) == 1
    b.move(5)
    await b.ask()
    assert n_running(b) == 0


@virtual
async def test_what_was_planned_for_a_text_that_is_gone_is_not_prepared() -> None:
    b = Bench(LINES, LINES, script="zz\n", **COLD)
    late = b.completer._allowance._power._executor = Late()
    await b.ask()
    b.move(300)
    b.type("y")
    await asyncio.sleep(0.1)
    late.let_go()
    await asyncio.sleep(0.3)
    assert not background(b) and b.n_looks == 1
    await rest(b)
    assert [r.priority for r in background(b)] == [Priority.PREFETCH]


@virtual
async def test_what_still_runs_after_its_end_was_asked_for_counts() -> None:
    b = Bench(LINES, LINES, prefix_tokens=100, suffix_tokens=250, typed_tokens=40, **COLD)
    cancel, b.client.cancel = b.client.cancel, lambda request_id: None  # type: ignore[method-assign]
    b.type("x")
    await asyncio.sleep(IDLE_S + 0.1)
    b.move(200)
    b.type("y")  # what was for the other place is cancelled, but the engine has not said so
    await asyncio.sleep(IDLE_S + 0.1)
    first, *others = (len(r.tokens) for r in background(b))
    assert first > 390 / 2 and first + sum(others) <= 390
    b.client.cancel = cancel  # type: ignore[method-assign]


@virtual
async def test_the_budget_of_a_minute_delays_what_is_beyond_it() -> None:
    b = Bench(LINES, LINES, prefix_tokens=400, suffix_tokens=60, typed_tokens=40, **COLD)
    n_full = b.completer._desk.planner.n_full  # type: ignore[union-attr]
    assert n_full == 500
    for line in (390, 200, 100):
        b.move(line)
        b.type("x")
        await rest(b)
    ended = b.now
    n = b.client.counters().background
    assert 250 < n <= n_full
    await b.ask()
    assert "had its share of this minute" in b.record["warm_up"]
    await asyncio.sleep(MINUTE_S - IDLE_S - 1 - (b.now - ended))
    assert b.client.counters().background <= n_full
    await rest(b, 10.0)  # nobody did anything: it begins by itself
    assert b.client.counters().background > n_full
    b.type("y")
    await b.ask()
    assert b.record["n_reused_tokens"] >= 0.95 * b.record["n_prompt_tokens"] > 200


@virtual
async def test_on_a_gpu_there_is_no_such_budget() -> None:
    b = Bench(LINES, LINES, prefix_tokens=400, suffix_tokens=60, typed_tokens=40, **COLD)
    b.client._costs = Costs(10.0, 30.0, on_cpu=False)
    for line in (390, 200, 100):
        b.move(line)
        b.type("x")
        await rest(b)
    assert b.client.counters().background > 600 and b.now < 20
    assert [r.priority for r in background(b)] == [Priority.PREFETCH] * 3  # each in full, at once


_DO = st.one_of(
    st.tuples(st.just("key"), st.sampled_from(["x", " ", "total", "\n"])),
    st.tuples(st.just("edit"), st.sampled_from(["y", "foo(", "\n"])),
    st.tuples(st.just("jump"), st.integers(0, 395)),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 0.9, 4.0, 20.0, 59.0])),
    st.tuples(st.just("other"), st.integers(10, 150)),
    st.tuples(st.just("open"), st.integers(0, 3)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_DO, min_size=5, max_size=40), st.sampled_from(["anchored", "psm"]))
@example(  # a token in common that the engine does not share
    [("other", 31), *[("key", "x")] * 3, ("jump", 28), ("wait", 59.0), ("other", 28), ("jump", 155), ("open", 0)], "anchored"
)
def test_no_minute_of_the_background_exceeds_a_full_prompt_and_the_foreground(plan: list[tuple[str, Any]], layout: str) -> None:
    """Counted by the engine, at every step."""

    async def scenario() -> None:
        b = Bench(
            LINES, LINES, script="foo bar\n", prefix_tokens=300, suffix_tokens=60, typed_tokens=40, layout=layout, **COLD
        )  # fmt: skip
        n_full = b.completer._desk.planner.n_full  # type: ignore[union-attr]
        at: list[float] = []
        before: list[tuple[int, int]] = []

        def sample(_rows: Any = None) -> None:
            counters = b.client.counters()
            at.append(b.now)
            before.append((counters.background, counters.prompt + counters.healing + counters.generated))

        b.backend.on_decode = sample
        for action, value in plan:
            if action == "key":
                b.type(value)
                await b.ask()
            elif action == "edit":
                b.type(value)
            elif action == "jump":
                b.move(value)
                b.type("z")
            elif action == "wait":
                await asyncio.sleep(value)
            elif action == "other":
                await ask(b, other(b, "b.py", "foo = bar\n" * 200), 10 * value)
            else:
                b.completer.opened(other(b, f"{value}.py", f"name{value} = total\n" * 20))
        await rest(b, 70.0)
        sample()
        for first in range(len(at) - 1):
            last = max(i for i in range(first, len(at)) if at[i] <= at[first] + MINUTE_S)
            last = min(last + 1, len(at) - 1)  # counters are from before the step at their time
            spent, earned = (before[last][side] - before[first][side] for side in (0, 1))
            assert spent <= n_full + earned, (at[first], spent, earned)

    run_virtual(scenario)


# -- not at all


@virtual
async def test_off_means_nothing_in_the_background() -> None:
    b = Bench(LINES[:2000], LINES, script="zz\n", background="off", **COLD)
    await rest(b)
    await b.ask()
    await rest(b)
    b.type("\n")
    await rest(b)
    await b.ask()
    assert not background(b) and b.n_looks == 0
    assert "the setting background is off" in b.record["warm_up"]
    await rest(b)
    b.completer.configure(replace(b.config, server=replace(b.config.server, background="on")))
    await rest(b)
    assert background(b)


@virtual
async def test_switching_it_off_ends_what_runs() -> None:
    b = Bench(LINES, LINES, **COLD)
    b.type("x")
    await asyncio.sleep(IDLE_S + 0.5)
    assert n_running(b) == 1
    b.completer.configure(replace(b.config, server=replace(b.config.server, background="off")))
    await asyncio.sleep(0.4)
    assert n_running(b) == 0


@virtual
async def test_on_battery_there_is_none_unless_the_user_says_on() -> None:
    for setting, expected in (("auto", False), ("on", True)):
        b = Bench(LINES[:2000], LINES, script="zz\n", on_battery=True, background=setting, **COLD)
        for _ in range(3):
            b.type("x")
            await b.ask()
            await rest(b)
        assert bool(background(b)) is expected
        b.type("y")
        await b.ask()
        assert ("the machine runs on its battery" in b.record["warm_up"]) is not expected
    b = Bench(LINES[:2000], LINES, script="zz\n", on_battery=True, **COLD)
    await rest(b)
    b.on_battery = False
    while b.now < 5 * ASK_EVERY_S:
        b.type("x")
        await rest(b)
    assert background(b), "plugged in again"
    assert 2 <= b.n_looks <= 6


@pytest.mark.parametrize("why", ["private", "language", "disabled", "paused", "closed", "no engine"])
def test_what_gets_no_completion_is_not_warmed(why: str) -> None:
    @virtual
    async def scenario() -> None:
        b = Bench(LINES[:2000], LINES, **COLD)
        snapshot = b.snapshot
        if why == "private":
            b.completer.why_private = lambda doc_id: "it is listed in .midfillignore" if doc_id == snapshot.doc_id else ""
        elif why == "language":
            b.completer.configure(replace(b.config, server=replace(b.config.server, languages_off=("python",))))
        elif why == "disabled":
            b.completer.configure(replace(b.config, server=replace(b.config.server, enabled=False)))
        elif why == "paused":
            b.completer.pause(5)
        elif why == "no engine":
            b.completer._desk = None
        b.type("x")
        if why == "closed":
            b.completer.closed(snapshot.doc_id)
        await rest(b, 3.0)
        assert not background(b)

    scenario()


@virtual
async def test_pausing_ends_it_and_resuming_begins_it_anew() -> None:
    b = Bench(LINES, LINES, **COLD)
    b.type("x")
    await asyncio.sleep(IDLE_S + 0.5)
    assert n_running(b) == 1
    b.completer.pause(60)
    await asyncio.sleep(0.4)
    assert n_running(b) == 0
    await rest(b, 5.0)
    assert n_running(b) == 0
    b.completer.pause(None)
    await asyncio.sleep(IDLE_S + 0.1)
    assert n_running(b) == 1


@virtual
async def test_closing_ends_it() -> None:
    for close_all in (True, False):
        b = Bench(LINES, LINES, **COLD)
        b.type("x")
        await asyncio.sleep(IDLE_S + 0.5)
        assert n_running(b) == 1
        if close_all:
            await b.completer.aclose(engine=False)
        else:
            b.completer.closed("file:///a.py")
        await asyncio.sleep(0.4)
        assert n_running(b) == 0
        await rest(b, 5.0)
        assert len(background(b)) == 1


@virtual
async def test_closing_before_it_begins_leaves_nothing_to_begin() -> None:
    for close_all in (True, False):
        for waits_for in ("the timer", "the battery"):
            b = Bench(LINES[:3000], "", **COLD)
            late = Late()
            if waits_for == "the battery":
                b.completer._allowance._power._executor = late
                await asyncio.sleep(IDLE_S + 0.1)
            if close_all:
                await b.completer.aclose(engine=False)
            else:
                b.completer.closed("file:///a.py")
            late.let_go()
            await rest(b)
            assert not background(b)


@virtual
async def test_closing_the_document_used_before_leaves_the_one_in_use() -> None:
    b = Bench(LINES, LINES, prefix_tokens=200, suffix_tokens=30, **COLD)
    b.type("x")
    second = other(b, "b.py", "foo = bar\n" * 200)
    b.completer.opened(second)
    b.completer.changed(second, (Edit(1000, 1000, b""),))
    while len(background(b)) < 2:  # the second is warm, the first under way
        await asyncio.sleep(0.1)
    b.completer.closed("file:///a.py")
    await rest(b)
    assert len(background(b)) == 2
    assert "were in the cache" in (await ask(b, second, 1000))["warm_up"]


@virtual
async def test_a_document_opened_before_the_engine_is_there_is_warmed_when_it_is() -> None:
    b = Bench(LINES[:3000], "", **COLD)
    b.completer._desk = None
    b.completer.opened(b.snapshot)
    await rest(b, 5.0)
    assert not background(b)
    b.completer.attach(b.client)
    await rest(b)
    assert len(background(b)) == 1


@virtual
async def test_a_fault_in_warming_stops_nothing() -> None:
    b = Bench(LINES, LINES, script="zz\n", **COLD)

    def fail(_doc_id: str) -> str:
        raise RuntimeError("broken")

    b.completer.why_private = fail
    b.type("x")
    await rest(b)
    b.completer.why_private = lambda doc_id: ""
    b.type("y")
    await rest(b)
    assert len(background(b)) == 1
