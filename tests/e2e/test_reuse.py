"""kv-reuse: neighbours. Whatever stays in a cache, an answer is that of its own prompt."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cases.drivers.reuse import NO_ADOPTING, PLAIN, Watched, cells_of_the_window_only, cold, compare, hashing, places
from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model
from tests.support.client import in_loop, span
from tests.support.tiny_gguf import write_tiny


@pytest.mark.parametrize("n_sequences", [1, 3])
@pytest.mark.parametrize("arch", ["qwen2", "gemma2", "mamba"])
@in_loop
async def test_editing_says_what_each_prompt_says_alone(arch: str, n_sequences: int, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", arch=arch, seed=5)
    watched = Watched(path, n_sequences)
    async with watched.scene() as scene:
        scene.open("")
        for text, line, column in places(random.Random(n_sequences), 40):
            scene.change({"text": text})
            await scene.ask(line, column, invoked=True)
        await scene.idle()
        assert scene.engine is not None
        requests = list(scene.engine.typing)
        assert len(requests) == 40
        compare(scene.engine.vocab, cold(path, requests), watched.ran(requests))


@in_loop
async def test_a_window_whose_beginning_is_lost_is_evaluated_anew_and_says_the_same(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", arch="gemma2", sliding_window=8)
    with cells_of_the_window_only():
        watched = Watched(path)
        async with watched.scene() as scene:
            scene.open("")
            lines = [f"value_{i} = name[{i}] + items\n" for i in range(55)]
            for i in (0, 30, 33, 54, 29, 45):
                lines[i] = f"import name_{i}\n"
                scene.change({"text": "".join(lines)})
                await scene.ask(55, 0, invoked=True)
            await scene.idle()
            assert scene.engine is not None
            requests = list(scene.engine.typing)
            reused = [watched.runs[request.request_id].stats(0.0).n_reused for request in requests]
            assert any(not done for _, n, done in watched.truncated if n), "no removal was ever refused"
            assert 0 in reused[1:], f"{reused}"
            compare(scene.engine.vocab, cold(path, requests), watched.ran(requests))


@in_loop
async def test_documents_with_the_same_text_share_a_cache_and_no_answer_of_another() -> None:
    async with Scene(options=NO_ADOPTING, open_client=hashing) as plain, Scene(open_client=hashing) as scene:
        texts = [f"a = {i % 3}\ntotal = \nb = {i // 3}\n" for i in range(9)]
        for turn in range(2):
            for i, text in enumerate(texts):
                for uri in (URI, f"file:///w/{i}.py", f"untitled:{i}-{turn}"):
                    scene.open(text, uri, PLAIN)
                    plain.open(text, f"file:///w/plain-{i}.py", PLAIN)
                    got = await scene.ask(1, 8, uri=uri)
                    want = await plain.ask(1, 8, uri=f"file:///w/plain-{i}.py")
                    why = f"{uri} at {turn}, {i}: {await scene.reason()}"
                    assert [item["insertText"] for item in got] == [item["insertText"] for item in want], why


@in_loop
async def test_a_document_that_is_closed_while_it_is_answered_leaves_nothing_behind() -> None:
    async with Scene(options={"adopt_ms": 600_000}, open_client=hashing) as scene:
        scene.open("total = \nb = 1\n", language=PLAIN)
        first = await scene.ask(0, 8)
        scene.client.close(URI)
        scene.open("total = \nb = 2\n", language=PLAIN)
        second = await scene.ask(0, 8)
        scene.client.close(URI)
        scene.open("total = \nb = 1\n", language=PLAIN)
        assert scene.n_calls == 2
        assert await scene.ask(0, 8) != second
        assert scene.n_calls == 3, "answered from what a closed document left"
        assert first


@in_loop
async def test_who_types_what_is_shown_asks_nobody_although_its_beginning_was_left_out() -> None:
    """The model says the line above again, and then what is shown."""
    async with Scene(Model.saying("release_all(arg)\n    other(arg)", "never(asked)")) as scene:
        line = "    "
        scene.open(f"def f(arg):\n    release_all(arg)\n{line}\n\n\nx = 1\n")
        for key in "other(arg":
            (item,) = await scene.ask(2, len(line))
            assert item["insertText"].strip() == "other(arg)"
            scene.change({"range": span(2, len(line), 2, len(line)), "text": key})
            line += key
        (item,) = await scene.ask(2, len(line))
        assert item["insertText"].strip() == "other(arg)" and scene.n_calls == 1
