"""Inline and plain completion of one document at once: one generation, two answers, and who supersedes whom."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.types import Completion, Selected, Superseded
from tests.lsp_server.test_session import LINES, Bench, virtual
from tests.support.fake_backend import WORDS
from tests.support.virtual import run_virtual

BLOCK = "".join(f"{name} = {i}\n    " for i, name in enumerate(WORDS[14:23])) + "return value\n"
Task = asyncio.Task[Completion]


def start(b: Bench, *, plain: bool, invoked: bool = False, selected: Selected | None = None) -> Task:
    query = replace(b.query(invoked, selected), is_plain=plain)
    return asyncio.ensure_future(b.completer.complete(query))


@pytest.mark.parametrize("plain_first", [False, True])
@pytest.mark.parametrize("server", [{}, {"typed_through": False, "adopt_ms": 0}, {"debounce_ms": 20}], ids=str)
@pytest.mark.parametrize("before", ["x = ", LINES + "x = "], ids=["short", "planned in the pool"])
def test_both_at_the_same_place_share_one_generation(plain_first: bool, server: dict[str, Any], before: str) -> None:
    async def main() -> None:
        b = Bench(before, script="total + value\nprint(x)\n", reply_deadline_ms=0, **server)
        first = start(b, plain=plain_first)
        await asyncio.sleep(0.001)
        second = start(b, plain=not plain_first)
        one, other = await first, await second
        assert b.accept(one) == b.accept(other) == before + "total + value\n"
        assert one.request_id == other.request_id
        assert b.n_typing() == 1

    run_virtual(main)


@virtual
async def test_they_are_told_apart_by_who_waits_for_what() -> None:
    b = Bench("def foo():\n    ", script=BLOCK, reply_deadline_ms=200)
    by_hand, listed = start(b, plain=False, invoked=True), start(b, plain=True)
    asked = b.now
    early = await listed
    assert b.now - asked <= 0.2 + b.client.step_s(64)
    assert not by_hand.done()
    assert "return value" not in b.accept(early)
    assert "return value" in b.accept(await by_hand)
    assert b.n_typing() == 1


@virtual
async def test_a_newer_text_supersedes_both() -> None:
    b = Bench("x = ", script="total + value\n", reply_deadline_ms=0)
    old = [start(b, plain=False), start(b, plain=True)]
    await asyncio.sleep(4 * b.client.step_s(4))
    b.type("t")
    new = start(b, plain=True)
    done = await asyncio.gather(*old, return_exceptions=True)
    assert all(isinstance(one, Superseded) for one in done)
    assert b.accept(await new) == "x = total + value\n"
    assert b.n_typing() == 1


@virtual
async def test_another_place_supersedes_both() -> None:
    b = Bench("x = ", script="total\n", reply_deadline_ms=0)
    old = [start(b, plain=False), start(b, plain=True)]
    await asyncio.sleep(0.001)
    b.cursor -= 2
    new = start(b, plain=False)
    done = await asyncio.gather(*old, return_exceptions=True)
    assert all(isinstance(one, Superseded) for one in done)
    await new


@pytest.mark.parametrize("plain", [False, True])
def test_a_request_asked_again_supersedes_its_own_kind_only(plain: bool) -> None:
    async def main() -> None:
        b = Bench("x = ", script="total + value\n", reply_deadline_ms=0)
        first, other = start(b, plain=plain), start(b, plain=not plain)
        await asyncio.sleep(0.001)
        again = start(b, plain=plain)
        with pytest.raises(Superseded):
            await first
        assert b.accept(await other) == b.accept(await again) == "x = total + value\n"
        assert b.n_typing() == 1

    run_virtual(main)


@pytest.mark.parametrize("n_steps", [0, 3], ids=["before anything came", "while it is read"])
def test_cancelling_one_leaves_the_other_its_generation(n_steps: int) -> None:
    async def main() -> None:
        b = Bench("def foo():\n    ", script=BLOCK, adopt_ms=1, reply_deadline_ms=0)
        inline, listed = start(b, plain=False), start(b, plain=True)
        await asyncio.sleep(n_steps * b.client.step_s(1) + 0.001)
        inline.cancel()
        with pytest.raises(asyncio.CancelledError):
            await inline
        assert b.accept(await listed).endswith("return value\n")
        assert b.n_typing() == 1

    run_virtual(main)


@virtual
async def test_both_cancelled_park_it() -> None:
    b = Bench("def foo():\n    ", script=BLOCK, reply_deadline_ms=0)
    tasks = [start(b, plain=False), start(b, plain=True)]
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    n = b.client.counters().generated
    await b.client.idle()
    assert b.client.counters().generated - n <= b.config.server.adopt_ms / (b.client.step_s(1) * 1000) + 2


@virtual
async def test_an_inline_request_with_a_selected_entry_stands_beside_the_list() -> None:
    """The popup is open: its entry makes another text of the same document, so each has a generation, and neither ends."""
    b = Bench("x = to", script="tal + value\n", reply_deadline_ms=0)
    listed = start(b, plain=True)
    await asyncio.sleep(0.001)
    b.say(")\n")
    popup = start(b, plain=False, selected=Selected(4, 6, "read(item"))
    assert b.accept(await listed) == "x = total + value\n"
    (item,) = (await popup).items
    assert item.text == "read(item)"
    assert b.n_typing() == 2
    await b.client.idle()
    assert not b.client.engine._runs


@virtual
async def test_a_replaced_generation_ends_with_the_request_that_read_it() -> None:
    b = Bench("def foo():\n    to", script="value = 1\n    " * 40, reply_deadline_ms=100, max_tokens=400)
    listed = start(b, plain=True)
    await asyncio.sleep(0.001)
    popup = start(b, plain=False, selected=Selected(15, 17, "read(item"))
    await listed
    replaced = b.client.requests[0].request_id
    await popup
    await asyncio.sleep(2 * b.client.step_s(2))
    assert replaced not in {run.request_id for run in b.client.engine._runs}


@virtual
async def test_closing_the_document_ends_both() -> None:
    b = Bench("x = ", script="total + value\n", reply_deadline_ms=0)
    tasks = [start(b, plain=False), start(b, plain=True)]
    await asyncio.sleep(0.001)
    b.completer.closed("file:///a.py")
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, Superseded) for one in done)
    await b.client.idle()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["inline", "plain", "by hand", "popup", "type", "other", "cancel", "wait", "step"]), max_size=14
    ),
    st.sampled_from([0, 60]),
    st.booleans(),
)
def test_any_interleaving_ends_each_request_once_and_the_engine_idle(acts: list[str], adopt_ms: int, through: bool) -> None:
    async def main() -> None:
        text = "total + value\n    print(total)\n"
        b = Bench("def foo():\n    x = ", script=text, adopt_ms=adopt_ms, typed_through=through)
        tasks: list[tuple[str, Task]] = []
        typed = iter("total + value")
        for act in acts:
            live = [task for _, task in tasks if not task.done()]
            if act == "type" and (key := next(typed, "")):
                b.type(key)
            elif act == "other":
                b.type("q")
            elif act == "cancel" and live:
                live[0].cancel()
            elif act == "wait":
                await asyncio.sleep(0.3)
            elif act == "step":
                await asyncio.sleep(0.031)
            elif act in ("inline", "by hand", "plain"):
                tasks.append((act, start(b, plain=act == "plain", invoked=act == "by hand")))
            elif act == "popup":
                tasks.append((act, start(b, plain=False, selected=Selected(b.cursor, b.cursor, "foo"))))
            await asyncio.sleep(0)
        done = await asyncio.gather(*(task for _, task in tasks), return_exceptions=True)
        assert all(isinstance(one, (Completion, Superseded, asyncio.CancelledError)) for one in done)
        if tasks and not tasks[-1][1].cancelled():
            assert isinstance(done[-1], Completion), "nothing came behind the last"
        await asyncio.sleep(adopt_ms / 1000 + 0.1)
        await b.client.idle()
        session = b.completer._sessions.get("file:///a.py")
        assert session is None or not session.is_answering

    run_virtual(main)
