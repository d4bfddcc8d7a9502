"""sync-order, thread-safety: neighbours. What a request sees when everything comes at once."""

from __future__ import annotations

import asyncio

import pytest

from tests.cases.scene import URI, Scene, items_of
from tests.cases.scripted import Model
from tests.support.client import CANCELLED, CONTENT_MODIFIED, Json, in_loop, inline_params, span

OTHER = "file:///w/app/b.py"


def insert(uri: str, version: int, line: int, character: int, text: str) -> Json:
    change = {"range": span(line, character, line, character), "text": text}
    return {
        "method": "textDocument/didChange",
        "params": {"textDocument": {"uri": uri, "version": version}, "contentChanges": [change]},
    }


def ask(msg_id: int, uri: str, line: int, character: int, *, invoked: bool = False) -> Json:
    params = inline_params(uri, line, character, invoked)
    return {"id": msg_id, "method": "textDocument/inlineCompletion", "params": params}


@in_loop
async def test_each_request_of_a_burst_sees_exactly_the_changes_before_it() -> None:
    """Twenty keys and twenty requests in one write; all but the last are superseded, and its prompt is of the whole text."""
    async with Scene(Model.saying(")")) as scene:
        scene.open("")
        messages: list[Json] = []
        for i, key in enumerate("def total(value, xyz"):
            messages += [insert(URI, i + 2, 0, i, key), ask(i, URI, 0, i + 1)]
        messages.append(insert(URI, 99, 0, 20, "\n# later"))
        scene.scripted.gate.clear()  # the model says nothing before all are there: the fake would be quick enough
        ids = scene.feed(*messages)
        answers = [await scene.client.answer(msg_id) for msg_id in ids[:-1]]
        scene.scripted.gate.set()
        answers.append(await scene.client.answer(ids[-1]))
        assert all(a["error"]["code"] == CONTENT_MODIFIED for a in answers[:-1])
        (item,) = items_of(answers[-1])
        assert item["insertText"] == "def total(value, xyz)"
        assert (scene.prompt.before, scene.prompt.after) == ("def total(value, xyz", "")
        assert set(scene.client.answers.values()) == {1}
        assert scene.server_text() == scene.texts[URI] == "def total(value, xyz\n# later"


@in_loop
async def test_changes_of_one_notification_build_on_each_other() -> None:
    async with Scene(Model.saying("2")) as scene:
        scene.open("a\n")
        scene.change(
            {"range": span(0, 1, 0, 1), "text": "\nb"},
            {"range": span(1, 1, 1, 1), "text": "c\nd"},
            {"range": span(2, 0, 2, 1), "text": "e = "},
        )
        assert await scene.accept(2, 4) == "a\nbc\ne = 2\n"
        assert scene.prompt.before == "a\nbc\ne = "


@in_loop
async def test_a_request_before_its_document_is_silent() -> None:
    async with Scene(Model.saying("1")) as scene:
        answer = await scene.client.inline(URI, 0, 4)
        assert items_of(answer) == []
        scene.open("a = ")
        assert await scene.accept(0, 4) == "a = 1"
        scene.client.close(URI)
        assert await scene.ask(0, 4) == []


@in_loop
async def test_two_documents_interleaved_keep_their_own_texts_and_answers() -> None:
    says = Model.saying("")
    says.by_prompt = {name: says.vocab.encode_special(f"{name}()\n") for name in ("left", "right")}
    async with Scene(says) as scene:
        scene.open("# left\nx = ")
        scene.open("# right\ny = ", OTHER)
        scene.scripted.gate.clear()
        ids = scene.feed(
            *(ask(10 * i + j, uri, 1, 4) for i in range(10) for j, uri in enumerate((URI, OTHER))),
            insert(URI, 2, 0, 0, "#"),
        )
        for msg_id in ids:
            if msg_id in ids[-2:]:
                scene.scripted.gate.set()  # the others were superseded without a word of the model
            answer = await scene.client.answer(msg_id)
            if msg_id in ids[-2:]:
                (item,) = items_of(answer)
                assert item["insertText"] == ("x = left()" if msg_id % 2 == 0 else "y = right()")
            else:
                assert answer["error"]["code"] == CONTENT_MODIFIED
        await scene.idle()
        assert len(scene.scripted.threads) == 1
        assert not scene.logs.above(20)


@pytest.mark.parametrize("invoked", [False, True])
@in_loop
async def test_a_long_generation_elsewhere_holds_nobody_up(invoked: bool) -> None:
    """A speaks for ever; B's steps ride along, and A's go on."""
    async with Scene(Model.saying("foo, ", endless=True), {"max_tokens": 300, "n_ctx": 1024}) as scene:
        endless = scene.scripted
        scene.open("a = ")
        long = scene.client.ask_inline(URI, 0, 4, invoked=True)
        while endless.counters().generated < 2:
            await asyncio.sleep(0.001)
        endless.model.endless = False
        scene.open("b = ", OTHER)
        assert await scene.ask(0, 4, uri=OTHER, invoked=invoked)
        items_of(await scene.client.answer(long))  # how much is left of what it has repeated depends on when it was ended
        assert len(endless.threads) == 1


@in_loop
async def test_documents_that_come_and_go_leave_nothing_running() -> None:
    model = Model.saying("foo ", endless=True, step_s=0.001)
    async with Scene(model, {"max_tokens": 3000, "n_ctx": 4096}) as scene:
        ids = []
        for i in range(8):
            uri = f"file:///w/app/{i}.py"
            scene.open("x = ", uri)
            ids.append(scene.client.ask_inline(uri, 0, 4, invoked=True))
            scene.client.close(uri)
        for msg_id in ids:
            answer = await scene.client.answer(msg_id)
            assert "result" in answer or answer["error"]["code"] in (CANCELLED, CONTENT_MODIFIED)
        await scene.idle()
        assert scene.scripted.counters().generated < 8 * 300
        assert not scene.app.completer._sessions
