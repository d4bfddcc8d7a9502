"""What an engine tells of itself, its vocabulary, its leases, and how it is asked to end."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from inference import sse
from inference.llama.vocab import load_vocab
from inference.models.gguf import check
from inference.models.identity import cut_vocabulary, identify, vocabulary_digest
from inference.serve.app import PARTS, make_application
from inference.serve.limits import Limits
from inference.serve.listen import on_socket
from inference.types import Costs, Counters, EngineError, GenerationRequest
from inference.wire import PROTOCOL, EngineState, News, decode, decode_hello, settings_digest
from tests.support.served import COSTS, MODEL, VOCAB, run, serving, until
from tests.support.tiny_gguf import bpe_vocabulary, write_tiny


def test_the_greeting_tells_who_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            await (await session.post("/v1/completions", json={"prompt": [1, 2, 3], "max_tokens": 2})).read()
            await served.idle()
            async with session.get("/midfill/hello") as response:
                hello = decode_hello(await response.read())
            want = {"n_ctx": 512, "model": "fake"}
            assert (hello.protocol, hello.version, hello.pid) == (PROTOCOL, "1.2.3", os.getpid())
            assert (hello.model_name, Path(hello.model_path)) == ("fake", MODEL.path)
            assert (hello.model_digest, hello.vocab_digest) == (MODEL.digest, MODEL.vocab_digest)
            assert (hello.settings, hello.settings_digest) == (want, settings_digest(want))
            assert (hello.n_ctx, hello.costs, hello.notices) == (512, COSTS, ("a notice",))
            assert hello.counters == served.engine.counters() != Counters() and hello.news == News(EngineState.READY)
            async with session.get("/health") as response:
                assert (response.status, json.loads(await response.read())["status"]) == (200, "ok")
            async with session.get("/v1/models") as response:
                assert [m["id"] for m in json.loads(await response.read())["data"]] == ["fake"]

    run(main)


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="[^"\\\n]*",?)+)\})? (-?[0-9.e+-]+)')


def samples(page: str) -> dict[str, float]:
    """By name and labels; every line is one of the format, and is announced with its type."""
    found: dict[str, float] = {}
    kinds: dict[str, str] = {}
    assert page.endswith("\n")
    for line in page.splitlines():
        if line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            assert what in ("HELP", "TYPE")
            if what == "TYPE":
                assert name not in kinds
                kinds[name] = rest
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        base = re.sub("_(bucket|sum|count)$", "", name)
        assert kinds.get(name) in ("counter", "gauge") or kinds[base] == "histogram"
        key = f"{name}{{{labels}}}" if labels else name
        assert key not in found
        found[key] = float(value)
    return found


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session, served.session() as other:
            lease = await other.get("/midfill/lease")
            body = {"prompt": list(VOCAB.encode(b"def foo")), "max_tokens": 4, "temperature": 0}
            for priority, n in (("typing", 2), ("background", 1)):
                for _ in range(n):
                    async with session.post("/v1/completions", json={**body, "midfill": {"priority": priority}}) as response:
                        assert response.status == 200
            assert (await session.post("/v1/completions", json={"prompt": []})).status == 400
            assert (await session.get("/nothing")).status == 404
            served.gate.close()
            asking = asyncio.create_task(session.post("/v1/completions", json={"prompt": [9, 8, 7], "max_tokens": 3}))
            await until(served.gate.entered.is_set)
            async with other.get("/metrics") as response:
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                found = samples(await response.text())
            served.gate.open()
            assert (await asking).status == 200
            counters = served.engine.counters()
            finished = {k: v for k, v in found.items() if k.startswith("midfill_requests_total")}
            assert sum(finished.values()) == 3 and [v for k, v in finished.items() if "background" in k] == [1]
            assert found['midfill_refused_total{status="400"}'] == found['midfill_refused_total{status="404"}'] == 1
            assert found['midfill_requests{priority="invoked"}'] == 1 and found['midfill_requests{priority="typing"}'] == 0
            assert found['midfill_engine_running{priority="invoked"}'] == 1
            assert found["midfill_leases"] == 1 and found["midfill_connections"] == 3
            assert found['midfill_state{state="ready"}'] == 1 and found['midfill_state{state="draining"}'] == 0
            for name in ("midfill_first_byte_seconds", "midfill_request_seconds"):
                counts = [v for k, v in found.items() if k.startswith(f"{name}_bucket")]
                assert counts == sorted(counts) and counts[-1] == found[f"{name}_count"] == 3
                assert found[f'{name}_bucket{{le="+Inf"}}'] == 3 and found[f"{name}_sum"] > 0
            assert found["midfill_steps_total"] <= counters.n_steps and found['midfill_tokens_total{role="prompt"}'] >= 2
            assert found["process_resident_memory_bytes"] > 1e6
            assert all(found[f"midfill_engine_{name}"] >= 0 for name in ("resident", "cells", "stowed_bytes"))
            lease.close()

    run(main)


# -- the vocabulary


@pytest.mark.parametrize("name", ["qwen2", "sentencepiece", "mamba", "no-fim"])
def test_the_cut_is_the_vocabulary_of_its_model(tiny_models: dict[str, Path], tmp_path: Path, name: str) -> None:
    model = tiny_models[name]
    cut = cut_vocabulary(model)
    path = tmp_path / model.name
    path.write_bytes(cut)
    header = check(path, vocabulary=True)
    assert header.is_vocabulary_only and len(cut) < model.stat().st_size and len(cut) % 32 == 0
    mine, theirs = load_vocab(path), load_vocab(model)
    for attribute in ("pieces", "fim", "why_no_fim", "bos", "stop_tokens", "pre_type", "n_tokens"):
        assert getattr(mine, attribute) == getattr(theirs, attribute)
    text = Path(__file__).read_bytes()[:3000] + "日本 é\t<|fim_middle|>".encode()
    assert mine.encode(text) == theirs.encode(text)
    with pytest.raises(EngineError, match="only a vocabulary"):
        check(path)
    assert cut_vocabulary(path) == cut, "the cut of a cut is the cut"


def test_digests_tell_models_and_vocabularies_apart(tmp_path: Path) -> None:
    vocabulary = bpe_vocabulary()
    a = write_tiny(tmp_path / "a.gguf", vocabulary=vocabulary, name="m")
    other_weights = write_tiny(tmp_path / "b.gguf", vocabulary=vocabulary, seed=5, name="m")
    other_words = write_tiny(tmp_path / "c.gguf", vocabulary=vocabulary.changed(300), name="m")
    ids = [identify(path) for path in (a, other_weights, other_words)]
    assert identify(a) == ids[0] and ids[0].path == a
    assert ids[0].vocab_digest == ids[1].vocab_digest != ids[2].vocab_digest
    assert len({one.digest for one in ids}) == 3
    assert vocabulary_digest(cut_vocabulary(a)) == ids[0].vocab_digest
    moved = a.rename(tmp_path / "moved.gguf")
    assert identify(moved).digest == ids[0].digest
    with open(moved, "r+b") as file:
        file.truncate(moved.stat().st_size - 5)
    assert identify(moved).digest != ids[0].digest
    with pytest.raises(EngineError):
        identify(tmp_path / "nothing.gguf")
    (tmp_path / "text.gguf").write_text("no model")
    with pytest.raises(EngineError, match="not a model"):
        identify(tmp_path / "text.gguf")


def test_metadata_of_a_model_in_several_files_is_left_out(tmp_path: Path) -> None:
    """With it the native loader would look for the other files."""
    model = write_tiny(tmp_path / "whole.gguf")
    cut = cut_vocabulary(model)
    name = b"split.count"
    pair = len(name).to_bytes(8, "little") + name + (2).to_bytes(4, "little") + (3).to_bytes(2, "little")
    n = int.from_bytes(cut[16:24], "little")
    split = tmp_path / "split.gguf"
    split.write_bytes(cut[:16] + (n + 1).to_bytes(8, "little") + pair + cut[24:])
    assert b"split." in split.read_bytes() and cut_vocabulary(split).rstrip(b"\0") == cut.rstrip(b"\0")


def test_the_vocabulary_is_fetched_by_its_digest(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    model = identify(tiny_models["qwen2"])
    cut = cut_vocabulary(model.path)

    async def main() -> None:
        async with serving(tmp_path, model=model) as served, served.session() as session:
            for path in ("/midfill/vocab", f"/midfill/vocab/{model.vocab_digest}"):
                async with session.get(path) as response:
                    assert response.status == 200 and await response.read() == cut
                    tag = response.headers["ETag"]
                    assert tag == f'"{model.vocab_digest}"' and "immutable" in response.headers["Cache-Control"]
                async with session.get(path, headers={"If-None-Match": tag}) as response:
                    assert (response.status, await response.read()) == (304, b"")

    run(main)


def test_a_model_file_that_was_replaced_is_not_passed_off_as_the_old_one(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf")
    model = identify(path)
    write_tiny(path, vocabulary=bpe_vocabulary().changed(300))

    async def main() -> None:
        async with serving(tmp_path, model=model) as served, served.session() as session:
            async with session.get("/midfill/vocab") as response:
                assert response.status == 410
            path.unlink()
            async with session.get("/midfill/vocab") as response:
                assert response.status == 500 and "no file" in json.loads(await response.read())["error"]["message"]

    run(main)


# -- a host whose weights come and go


class ComingAndGoing:
    """A host whose state the test sets; requests and leases are only noted."""

    model, model_name, settings, notices = MODEL, "fake", {"a": 1}, ()

    def __init__(self) -> None:
        self.vocab = None
        self.n_ctx = 0
        self._news = News(EngineState.LOADING, 0.25)
        self._tell: list[Callable[[News], None]] = []
        self.leases: list[int] = []
        self.submitted: list[GenerationRequest] = []

    def be(self, news: News) -> None:
        self._news = news
        for tell in self._tell:
            tell(news)

    def news(self) -> News:
        return self._news

    def watch(self, tell: Callable[[News], None]) -> None:
        self._tell.append(tell)

    def costs(self) -> Costs | None:
        return None

    def counters(self) -> Counters:
        return Counters()

    def memory(self) -> None:
        return None

    def stats(self) -> None:
        return None

    def submit(self, request: GenerationRequest, sink: object) -> None:
        self.submitted.append(request)

    def cancel(self, request_id: int) -> None: ...
    def n_reusable(self, tokens: object) -> int:
        raise AssertionError("there is nothing loaded")

    def on_leases(self, n: int) -> None:
        self.leases.append(n)


async def next_news(response: aiohttp.ClientResponse) -> News:
    """Comments in between are skipped."""
    while True:
        line = await response.content.readline()
        assert line
        if line.startswith(b"data: "):
            return decode(News, line[6:], "news")


def test_leases_tell_what_the_engine_does(tmp_path: Path) -> None:
    async def main() -> None:
        host = ComingAndGoing()
        ends: list[str] = []
        app = make_application(
            host, version="1", on_drained=lambda: ends.append("drained"), on_stop=lambda: ends.append("stop"),
            limits=Limits(quiet_s=60, n_leases=2),
        )  # fmt: skip
        path = tmp_path / "run" / "e.sock"
        listening = await on_socket(app, path)
        async with aiohttp.ClientSession("http://x", connector=aiohttp.UnixConnector(str(path))) as session:
            first, second = await session.get("/midfill/lease"), await session.get("/midfill/lease")
            assert first.headers["Content-Type"] == "text/event-stream" and host.leases == [1, 2]
            assert (await session.get("/midfill/lease")).status == 429
            assert await next_news(first) == News(EngineState.LOADING, 0.25) == await next_news(second)
            for news in (
                News(EngineState.LOADING, 0.5), News(EngineState.READY), News(EngineState.UNLOADED),
                News(EngineState.FAILED, why="It is gone."),
            ):  # fmt: skip
                await asyncio.to_thread(host.be, news)  # from another thread, as loading is
                assert await next_news(first) == news == await next_news(second)
            second.close()
            await until(lambda: host.leases == [1, 2, 1])
            assert len(app[PARTS].leases) == 1
            async with session.post("/midfill/drain") as response:
                assert await response.json() == {"state": "draining", "running": 0}
            assert await next_news(first) == News(EngineState.DRAINING)
            await until(lambda: ends == ["drained"])
            (await session.post("/midfill/drain")).close()
            async with session.post("/midfill/stop") as response:
                assert await response.json() == {"pid": os.getpid()}
            await until(lambda: ends == ["drained", "stop"])
            reading = asyncio.create_task(first.read())
            await listening.aclose()
            assert set(await reading) <= set(b": \n") and host.leases == [1, 2, 1, 0]
        assert not path.exists()

    run(main)


def test_a_quiet_lease_is_kept_alive(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, limits=Limits(quiet_s=0.02)) as served, served.session() as session:
            lease = await session.get("/midfill/lease")
            assert await next_news(lease) == News(EngineState.READY)
            lines = [await lease.content.readline() for _ in range(5)]
            assert lines == [b"\n", b": \n", b"\n", b": \n", b"\n"]
            lease.close()

    run(main)


def test_an_engine_without_its_model_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        host = ComingAndGoing()
        app = make_application(host, version="1", on_drained=lambda: None, on_stop=lambda: None)
        listening = await on_socket(app, tmp_path / "run" / "e.sock")
        connector = aiohttp.UnixConnector(listening.address)
        async with aiohttp.ClientSession("http://x", connector=connector) as session:
            for news, says in (
                (News(EngineState.LOADING, 0.25), "being loaded"),
                (News(EngineState.FAILED, why="The file is cut."), "file is cut"),
            ):
                host.be(news)
                async with session.post("/v1/completions", json={"prompt": "x"}) as response:
                    assert response.status == 503 and says in (await response.json())["error"]["message"]
                async with session.get("/health") as response:
                    assert (response.status, (await response.json())["status"]) == (503, news.state)
            async with session.post("/midfill/reusable", json={"tokens": [1]}) as response:
                assert await response.json() == {"n": 0}
            async with session.get("/midfill/hello") as response:
                hello = decode_hello(await response.read())
                assert (hello.n_ctx, hello.costs, hello.news.state) == (0, None, EngineState.FAILED)
            async with session.get("/metrics") as response:
                assert samples(await response.text())['midfill_state{state="failed"}'] == 1
            # once the vocabulary is known the host keeps what comes until there are weights again
            host.vocab, host.n_ctx = VOCAB, 100
            host.be(News(EngineState.UNLOADED))
            asking = asyncio.create_task(session.post("/v1/completions", json={"prompt": "def foo", "max_tokens": 3}))
            await until(lambda: host.submitted)
            assert host.submitted[0].tokens == VOCAB.encode(b"def foo")
            asking.cancel()
        await listening.aclose()

    run(main)


def test_draining_finishes_what_runs_and_takes_nothing_new(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            served.gate.close()
            asking = asyncio.create_task(session.post("/v1/completions", json={"prompt": [1, 2], "max_tokens": 9}))
            await until(lambda: len(served.parts.running) == 1)
            async with session.post("/midfill/drain") as response:
                assert await response.json() == {"state": "draining", "running": 1}
            async with session.post("/v1/completions", json={"prompt": [1, 2]}) as response:
                assert response.status == 503 and "connect again" in (await response.json())["error"]["message"]
            async with session.get("/health") as response:
                assert response.status == 503
            assert not served.told
            served.gate.open()
            answer = await (await asking).json()
            assert answer["midfill"]["finish"] in ("length", "stop")
            await until(lambda: served.told == ["drained"])

    run(main)


def test_what_runs_when_the_server_ends_is_ended_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            served.gate.step_s = 0.002
            body = {"prompt": [1, 2], "max_tokens": 480, "stream": True}
            served.backend.script_always = lambda tokens: 65
            response = await session.post("/v1/completions", json=body)
            reading = asyncio.create_task(response.read())
            await until(lambda: served.gate.n_steps > 3)
            await served.listening.aclose()
            *said, done = sse.Reader().push(await reading)
            assert done == sse.DONE and json.loads(said[-1])["midfill"]["finish"] == "cancelled"
            await served.idle()

    run(main)
