"""utf16-position, sync-range, sync-order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from context.tokens import TokenTable
from tests.cases import checks, generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene, items_of
from tests.cases.scripted import Model
from tests.support.client import CONTENT_MODIFIED, Json, span


@driver("utf16-position-02")
async def exact_split(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        prompt = scene.prompt
        assert prompt.before + prompt.after == scene.texts[played.uri], "something is lost or doubled at the split"
        return f"split between {prompt.before[-6:]!r} and {prompt.after[:6]!r}"


@driver("sync-range-04")
async def impossible_edit(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        items_of(played.last.answer)
        warnings = scene.logs.above(20)
        assert len(warnings) == 1 and "reversed" in warnings[0], f"logged: {warnings}"
        before = scene.server_text(played.uri)
        good, bad = {"range": span(0, 0, 0, 1), "text": "Q"}, {"range": span(0, 3, 0, 1), "text": "Z"}
        for batch in ((good, bad), (bad, good)):
            scene.client.change(played.uri, *batch)
            await scene.client.settle()
            assert scene.server_text(played.uri) == before, "a batch with one bad edit was half applied"
        await scene.ask(0, 2)
        assert scene.logs.above(20) == warnings, f"logged again: {scene.logs.above(20)}"
        return "refused, logged once"


@contextmanager
def slow_tokens(seconds: float) -> Iterator[None]:
    """The token step sleeps, at most once for each request: `woken` is emptied for the next."""
    encode = TokenTable.encode

    def slow(table: TokenTable, text: bytes) -> tuple[int, ...]:
        if not woken:
            woken.append(True)
            time.sleep(seconds)
        return encode(table, text)

    with mock.patch.object(TokenTable, "encode", slow):
        yield


woken: list[bool] = []


@driver("sync-order-01")
async def one_write(case: Case) -> str:
    """Every other time a further change stands behind the request in the same write: it must not slip in."""
    n_times = 200
    opened, change, ask = case.input["messages"]
    later: Json = {
        "method": "textDocument/didChange",
        "params": {
            "textDocument": {"uri": opened["params"]["textDocument"]["uri"], "version": 3},
            "contentChanges": [{"range": span(0, 0, 1, 0), "text": "later\n"}],
        },
    }
    with slow_tokens(0.02):
        async with generic.scene_of(case) as scene:
            for i in range(n_times):
                woken.clear()
                scene.feed(opened, change, {**ask, "id": 1000 + i}, *([later] if i % 2 else []))
                items_of(await scene.client.answer(1000 + i))
                assert woken, "the token step was not slowed down"
                prompt = scene.prompt
                end = case.expected["prompt_prefix_ends_with"]
                assert prompt.before.endswith(end), f"time {i}: {prompt.before!r}"
                assert prompt.before + prompt.after == "def f(alpha):\n    return alpha\n", f"a mix: {prompt}"
                vocab = scene.model.vocab
                n_prefix = len(vocab.encode(prompt.prefix.encode()))
                assert prompt.tokens[1 : n_prefix + 1] == vocab.encode(prompt.prefix.encode()), "old tokens"
            assert scene.n_calls == n_times, f"{scene.n_calls} prompts in {n_times} requests"
            assert not scene.logs.above(20)
    return f"{n_times} times, each in one write, with 20 ms in the token step"


@driver("sync-order-02")
async def request_before_its_change(case: Case) -> str:
    """Once as told, the first request being answered before the change comes; once in one write, where the first one may also
    be answered as superseded."""
    opened, early, change, late = case.input["messages"]
    async with generic.scene_of(case) as scene:
        scene.feed(opened, early)
        first = await scene.client.answer(early["id"])
        assert "error" not in first, f"{first}"
        scene.feed(change, late)
        items_of(await scene.client.answer(late["id"]))
        assert scene.prompt.before == "x" and scene.prompt.after == "", f"{scene.prompt}"
    async with Scene(Model.saying(" = 1")) as scene:
        scene.feed(opened, early, change, late)
        first, second = await scene.client.answer(early["id"]), await scene.client.answer(late["id"])
        assert "error" not in first or first["error"]["code"] == CONTENT_MODIFIED, f"{first}"
        (item,) = items_of(second)
        assert item["insertText"] == "x = 1", f"{item}"
        assert not scene.logs.above(20)
    return "answered at the clamped place, then on the changed text"
