"""The client of an engine in another process: the same as in this one, and orderly when the engine goes away."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference import sse, unix_socket
from inference.clients import http_link
from inference.clients.http import HttpClient, State
from inference.clients.http_session import Gone, Refusal, Session
from inference.clients.vocabulary import EarlyVocabulary, file_name
from inference.costs import CostTable
from inference.endpoint import Endpoint
from inference.llama.vocab import load_vocab
from inference.models.identity import ModelFile, cut_vocabulary, identify
from inference.serve.limits import Limits
from inference.types import (
    Costs,
    EngineError,
    FinishReason,
    GenerationRequest,
    GenerationStats,
    Priority,
    SamplingParams,
    TokenEvent,
)
from inference.wire import PROTOCOL, EngineState, Envelope, News, encode_completion, to_json
from tests.inference.test_engine import Harness, alone, heals, prompt, texts
from tests.support.fake_backend import FakeBackend
from tests.support.served import COSTS, KEY, MODEL, VOCAB, Served, events, run, serving, text_of, until
from tests.support.tiny_gguf import bpe_vocabulary, write_tiny

PROMPT = prompt("def foo():\n    return ")


class Loads:
    """Stands in for the native loader, and notes what it was given."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    def __call__(self, path: Path) -> Any:
        self.paths.append(path)
        return VOCAB


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return identify(write_tiny(tmp_path_factory.mktemp("model") / "qwen-tiny.gguf"))


def endpoint_of(served: Served) -> Endpoint:
    return Endpoint(socket=served.socket) if served.socket else Endpoint(url=served.url, key=KEY)


async def connect(served: Served, tmp_path: Path, **options: Any) -> HttpClient:
    return await HttpClient.connect(endpoint_of(served), tmp_path / "cache", load=Loads(), **options)


wanted = st.tuples(texts, heals, st.integers(0, 12), st.sampled_from(Priority), st.sampled_from([0.0, 0.8]), st.integers(0, 3))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(wanted, st.booleans(), st.integers(0, 1)), min_size=1, max_size=8))
def test_any_interleaving_of_two_clients_equals_each_request_alone(tmp_path: Path, model: ModelFile, plan) -> None:
    requests = [
        GenerationRequest(i, prompt(text), heal, n_max, SamplingParams(temperature=temperature, seed=seed), priority)
        for i, ((text, heal, n_max, priority, temperature, seed), _, _) in enumerate(plan, 1)
    ]

    async def main() -> list[Any]:
        async with serving(tmp_path, model=model, backend=FakeBackend(VOCAB, n_ctx=8192, n_seq_max=8)) as served:
            clients = [await connect(served, tmp_path) for _ in range(2)]
            streams = []
            for request, (_, is_cancelled, which) in zip(requests, plan, strict=True):
                stream = clients[which].submit(request)
                if is_cancelled:
                    stream.cancel()
                    stream.cancel()
                streams.append(stream)
            found = [await events(stream) for stream in streams]
            await served.idle()
            assert all(not link.streams for link in (client._link for client in clients))
            for client in clients:
                await client.aclose()
            return found

    for request, (_, is_cancelled, _), found in zip(requests, plan, run(main), strict=True):
        want, finish = alone(request)
        assert all(event.request_id == request.request_id for event in found)
        if found[-1].finish is FinishReason.CANCELLED:
            assert is_cancelled or request.priority > Priority.INVOKED
            assert want.startswith(text_of(found))
        else:
            assert (text_of(found), found[-1].finish) == (want, finish)
            stats = found[-1].stats
            assert stats.n_prompt == stats.n_reused + stats.n_evaluated == len(request.tokens)


def test_candidates_come_over_the_wire_as_they_come_here(tmp_path: Path, model: ModelFile) -> None:
    here = Harness()
    here.submit(GenerationRequest(1, PROMPT, b"fo", 9, n_candidates=3, first_line=True))
    here.drain()

    async def main() -> None:
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path)
            found = await events(client.submit(GenerationRequest(1, PROMPT, b"fo", 9, n_candidates=3, first_line=True)))
            assert found[-1].ranking == here.last(1).ranking and len(found[-1].ranking) == 3
            for candidate in range(3):
                assert "".join(e.text for e in found if e.candidate == candidate) == here.text(1, candidate)
            await client.aclose()

    run(main)


@pytest.mark.parametrize("tcp", [False, True])
def test_it_is_an_engine_client(tmp_path: Path, model: ModelFile, tcp: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path, model=model, tcp=tcp) as served:
            client = await connect(served, tmp_path)
            assert (client.n_ctx, client.model_name, client.notices) == (512, "fake", ("a notice",))
            assert client.vocab is VOCAB and client.costs() == served.engine.costs
            assert client.state is State.CONNECTED and client.news == News(EngineState.READY)
            assert len({client.next_id() for _ in range(5)}) == 5
            assert len(served.parts.leases) == 1
            assert await client.n_reusable(PROMPT) == 0
            found = await events(client.submit(GenerationRequest(client.next_id(), PROMPT, b"fo", 5)))
            assert text_of(found) == alone(GenerationRequest(1, PROMPT, b"fo", 5))[0]
            assert client.counters() == served.engine.counters()
            served.engine.table = CostTable(Costs(1.0, 1.0), [(1, 5.0), (8, 16.0)])  # what real steps have told it meanwhile
            assert client.costs() == COSTS
            await events(client.submit(GenerationRequest(client.next_id(), PROMPT, b"fo", 5)))
            assert client.costs() == Costs(2.0, 5.0)
            assert await client.n_reusable([*PROMPT, 1, 2]) == len(PROMPT)
            assert await client.n_reusable(PROMPT[:4]) == 4
            # one connection for the lease, one for all that is asked one after the other
            assert served.parts.doors[0].n_connections == 2
            await client.aclose()
            await client.aclose()
            assert client.state is State.CLOSED
            await until(lambda: not served.parts.doors[0].n_connections and not len(served.parts.leases))

    run(main)


def test_cancelling_at_each_stage_leaves_nothing(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path)
            served.backend.script_always = lambda tokens: 65  # without end
            served.gate.step_s = 0.001
            at_once = client.submit(GenerationRequest(1, PROMPT, n_max=400))
            at_once.cancel()
            assert (await events(at_once))[-1].finish is FinishReason.CANCELLED
            served.gate.close()
            in_prefill = client.submit(GenerationRequest(2, PROMPT, n_max=400))
            waiting = client.submit(GenerationRequest(3, (5, 6), n_max=400))
            await until(served.gate.entered.is_set)
            in_prefill.cancel()
            waiting.cancel()
            await until(lambda: len(served.engine._inbox._cancelled) == 2)
            served.gate.open()
            assert [(await events(s))[-1].finish for s in (in_prefill, waiting)] == [FinishReason.CANCELLED] * 2
            decoding = client.submit(GenerationRequest(4, (1, 2, 3), n_max=400, sampling=SamplingParams(0.8, seed=1)))
            assert (await decoding.next()).finish is None
            decoding.cancel()
            rest = await events(decoding)
            assert rest[-1].finish is FinishReason.CANCELLED and 1 <= rest[-1].stats.n_generated < 400
            decoding.cancel()  # after its end: nothing
            await served.idle()
            assert decoding._events.empty() and client.state is State.CONNECTED
            n_connections = served.parts.doors[0].n_connections
            for n in range(5):  # cancelled by name, so that connections are kept
                served.gate.close()
                again = client.submit(GenerationRequest(20 + n, (n, 5), n_max=400))
                await until(served.gate.entered.is_set)
                again.cancel()
                await until(lambda: served.engine._inbox._cancelled)
                served.gate.open()
                assert (await events(again))[-1].finish is FinishReason.CANCELLED
            assert served.parts.doors[0].n_connections == n_connections
            assert text_of(await events(client.submit(GenerationRequest(9, (1, 2), n_max=4)))) == "AAAA"
            await client.aclose()

    run(main)


def test_a_newer_request_arrives_before_the_older_is_cancelled(tmp_path: Path, model: ModelFile) -> None:
    """Or the chunk that both want would be aborted."""

    async def main() -> None:
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path)
            order: list[str] = []
            submit, cancel = served.host.submit, served.host.cancel
            served.host.submit = lambda r, s: (order.append(f"+{len(r.tokens)}"), submit(r, s))[1]  # type: ignore
            served.host.cancel = lambda i: (order.append("-"), cancel(i))[1]  # type: ignore
            served.gate.close()
            for n in range(2, 12):  # none of them has a connection to itself yet
                older = client.submit(GenerationRequest(n, PROMPT[:n], n_max=50))
                await until(lambda n=n: f"+{n}" in order)
                newer = client.submit(GenerationRequest(100 + n, PROMPT * 3 + (n,), n_max=0))
                older.cancel()
                await until(lambda: order[-1] == "-")
                assert order[-2] == f"+{3 * len(PROMPT) + 1}"
                newer.cancel()
                await until(lambda: order[-2:] == ["-", "-"])
                order.clear()
            served.gate.open()
            await served.idle()
            await client.aclose()

    run(main)


def test_when_the_server_ends_every_stream_ends_once(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        lost: list[str] = []
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path, on_lost=lost.append)
            served.gate.step_s = 0.002
            served.backend.script_always = lambda tokens: 65
            streams = [client.submit(GenerationRequest(i, (i, 2), n_max=400)) for i in range(5)]
            await streams[0].next()
            await served.listening.aclose()
            finishes = [(await events(stream))[-1] for stream in streams]
            assert {event.finish for event in finishes} <= {FinishReason.CANCELLED, FinishReason.ERROR}
            assert await client.lost() and client.state is State.LOST and len(lost) == 1
            assert all(stream._events.empty() for stream in streams)
            # everything asked now is answered at once
            (last,) = await events(client.submit(GenerationRequest(9, (1, 2))))
            assert last.finish is FinishReason.ERROR and last.error == lost[0] and last.error.endswith(".")
            assert await client.n_reusable((1, 2)) == 0
            with pytest.raises(Gone):
                await client.reconnect()
            assert client.state is State.LOST and len(lost) == 1
        await client.aclose()

    run(main)


def test_it_reconnects_to_another_engine_of_the_same_vocabulary(tmp_path: Path, model: ModelFile) -> None:
    other = identify(write_tiny(tmp_path / "other.gguf", vocabulary=bpe_vocabulary().changed(300)))

    async def main() -> None:
        lost: list[str] = []
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path, on_lost=lost.append)
            await client.n_reusable((1, 2))
        assert await client.lost() == lost[0]
        async with serving(tmp_path, model=other):
            with pytest.raises(EngineError, match="another vocabulary"):
                await client.reconnect()
            assert client.state is State.LOST
        async with serving(tmp_path / "elsewhere", model=model, n_ctx=300) as served:
            before = client._link
            await client.reconnect(endpoint_of(served))
            assert before.session._session.closed and not before._tasks
            assert client.state is State.CONNECTED and client.n_ctx == 300 and len(served.parts.leases) == 1
            found = await events(client.submit(GenerationRequest(1, PROMPT, n_max=4)))
            assert text_of(found) == alone(GenerationRequest(1, PROMPT, n_max=4))[0]
        assert await client.lost() and len(lost) == 2
        await client.aclose()
        with pytest.raises(EngineError):
            await client.reconnect(endpoint_of(served))

    run(main)


CHILD = """
import asyncio, sys
from pathlib import Path
from inference.models.identity import ModelFile
from tests.support.served import serving

async def main():
    model = ModelFile(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    async with serving(Path(sys.argv[1]), model=model) as served:
        served.gate.step_s = 0.01
        served.backend.script_always = lambda tokens: 65
        sys.stdout.write("up\\n")
        sys.stdout.flush()
        await asyncio.sleep(60)

asyncio.run(main())
"""


def start_child(directory: Path, model: ModelFile) -> subprocess.Popen[bytes]:
    arguments = [str(directory), str(model.path), model.digest, model.vocab_digest]
    root = Path(__file__).resolve().parents[2]
    child = subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, cwd=root)
    assert child.stdout is not None and child.stdout.readline() == b"up\n"
    return child


def test_when_the_engine_is_killed_everybody_is_answered_and_the_next_one_serves(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        lost: list[str] = []
        child = await asyncio.to_thread(start_child, tmp_path, model)
        try:
            endpoint = Endpoint(socket=tmp_path / "run" / "engine.sock")
            client = await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads(), on_lost=lost.append)
            for round_ in range(2):
                streams = [client.submit(GenerationRequest(i, (i, 2), n_max=400)) for i in range(4)]
                await streams[0].next()
                reusable = asyncio.create_task(client.n_reusable((1, 2)))
                child.kill()
                found = [await events(stream) for stream in streams]
                assert [f[-1].finish for f in found] == [FinishReason.ERROR] * 4 and all(f[-1].error for f in found)
                await client.lost()
                assert await reusable in (0, 2) and len(lost) == round_ + 1
                await asyncio.to_thread(child.wait)
                assert endpoint.socket is not None and endpoint.socket.exists()  # nobody took it away
                child = await asyncio.to_thread(start_child, tmp_path, model)  # and that does not stand in the way
                await client.reconnect()
            assert (await client.submit(GenerationRequest(9, (1, 2), n_max=2)).next()).text == "A"
            await client.aclose()
        finally:
            child.kill()
            child.wait()

    run(main)


def test_a_stopped_engine_is_noticed(tmp_path: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is closed then; but nothing is heard either."""
    monkeypatch.setattr("inference.clients.http_session._SILENCE_S", 0.2)

    async def main() -> None:
        async with serving(tmp_path, model=model, limits=Limits(quiet_s=30)) as served:
            client = await connect(served, tmp_path)
            served.gate.close()
            stream = client.submit(GenerationRequest(1, (1, 2)))
            last = (await events(stream))[-1]
            assert last.finish is FinishReason.ERROR
            assert "does not answer" in await client.lost()
            await client.aclose()
            served.gate.open()
            await served.idle()

    run(main)


def test_a_refusal_ends_the_one_stream_only(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path)
            (last,) = await events(client.submit(GenerationRequest(1, (1,) * 600)))
            assert last.finish is FinishReason.ERROR and "600 tokens" in last.error and client.state is State.CONNECTED
            served.parts.running.drain(lambda: None)
            (last,) = await events(client.submit(GenerationRequest(1, (1,))))
            assert last.finish is FinishReason.ERROR and "takes nothing new" in last.error
            with pytest.raises(Gone, match="about to end"):
                await connect(served, tmp_path)
            await client.aclose()

    run(main)


def test_who_is_not_let_in(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        with pytest.raises(Gone, match="start one"):
            await HttpClient.connect(Endpoint(socket=tmp_path / "nothing" / "e.sock"), tmp_path)
        unix_socket.listen(tmp_path / "e.sock").close()
        with pytest.raises(Gone, match="start one"):
            await HttpClient.connect(Endpoint(socket=tmp_path / "e.sock"), tmp_path)
        async with serving(tmp_path, model=model, tcp=True) as served:
            for key in ("", "x" * 20):
                with pytest.raises(Refusal, match="key is missing or wrong"):
                    await HttpClient.connect(Endpoint(url=served.url, key=key), tmp_path)
            assert not len(served.parts.leases)
        with pytest.raises(Gone, match="start one"):
            await HttpClient.connect(Endpoint(url=served.url, key=KEY), tmp_path)

    run(main)


def test_a_directory_that_others_can_write_to_is_not_connected_to(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with serving(tmp_path, model=model) as served:
            assert served.socket is not None
            served.socket.parent.chmod(0o777)
            with pytest.raises(EngineError, match="Others can write"):
                await connect(served, tmp_path)

    run(main)


# -- the vocabulary


def test_the_models_own_file_is_used_where_it_is_the_same(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        loads = Loads()
        async with serving(tmp_path, model=model) as served:
            client = await HttpClient.connect(endpoint_of(served), tmp_path / "cache", load=loads)
            await client.aclose()
        assert loads.paths == [model.path] and not (tmp_path / "cache").exists()

    run(main)


def test_one_that_was_loaded_early_is_used_if_it_is_the_engines(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        loads, early = Loads(), Loads()
        async with serving(tmp_path, model=model) as served:
            for mine, expected in ((model, early), (replace(model, vocab_digest="0" * 64), loads)):
                first = EarlyVocabulary(mine, early)
                client = await HttpClient.connect(endpoint_of(served), tmp_path / "cache", load=loads, early=first)
                await client.aclose()
                assert expected.paths == [model.path], mine
            assert len(early.paths) == 2, "it does not wait to be asked"
            missing = EarlyVocabulary(ModelFile(tmp_path / "no.gguf", model.digest, model.vocab_digest))
            with pytest.raises(EngineError, match="no model file"):
                await HttpClient.connect(endpoint_of(served), tmp_path / "cache", load=loads, early=missing)

    run(main)


def test_elsewhere_it_is_fetched_once_kept_and_checked(tmp_path: Path, model: ModelFile) -> None:
    cut = cut_vocabulary(model.path)
    other = write_tiny(tmp_path / "qwen-tiny.gguf", vocabulary=bpe_vocabulary().changed(300))

    async def main() -> None:
        loads = Loads()

        async def connect_to(place: Path, vocabulary: bytes) -> Path:
            """An engine that names `place`. Where the vocabulary was loaded from."""
            moved = ModelFile(place, model.digest, model.vocab_digest)
            async with FakeEngine(tmp_path, moved, vocabulary=vocabulary) as endpoint:
                client = await HttpClient.connect(endpoint, tmp_path / "cache", load=loads)
                await client.aclose()
            return loads.paths[-1]

        kept = await connect_to(Path("/nowhere/qwen-tiny.gguf"), cut)
        assert kept.name == "qwen-tiny.gguf"  # a family is recognized by its name too
        assert kept.read_bytes() == cut and kept.is_relative_to(tmp_path / "cache") and os.listdir(kept.parent) == [kept.name]
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert {stat.S_IMODE(kept.parents[i].stat().st_mode) for i in range(3)} == {0o700}
        for place in (Path("/nowhere/qwen-tiny.gguf"), other, Path("/qwen-tiny.gguf")):
            assert await connect_to(place, b"not asked for again") == kept
        kept.write_bytes(cut[:-1] + b"x")
        assert await connect_to(Path("/nowhere/qwen-tiny.gguf"), cut) == kept and kept.read_bytes() == cut

    run(main)


def test_it_is_fetched_from_a_real_engine(tmp_path: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inference.clients.vocabulary._is_of", lambda path, digest: False)  # as on another machine

    async def main() -> None:
        async with serving(tmp_path, model=model, tcp=True) as served:
            client = await HttpClient.connect(endpoint_of(served), tmp_path / "cache")  # with the native loader
            theirs = load_vocab(model.path)
            assert (client.vocab.pieces, client.vocab.fim) == (theirs.pieces, theirs.fim)
            await client.aclose()

    run(main)


def test_a_cache_that_can_not_be_written_does_not_matter(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        (tmp_path / "cache").write_text("in the way")
        seen: list[bytes] = []

        def load(path: Path) -> Any:
            seen.append(path.read_bytes())
            return VOCAB

        moved = ModelFile(Path("/nowhere/m.gguf"), model.digest, model.vocab_digest)
        async with FakeEngine(tmp_path, moved, vocabulary=cut_vocabulary(model.path)) as endpoint:
            client = await HttpClient.connect(endpoint, tmp_path / "cache", load=load)
            await client.aclose()
        assert seen == [cut_vocabulary(model.path)]

    run(main)


def test_another_vocabulary_than_was_announced_is_not_used(tmp_path: Path) -> None:
    async def main() -> None:
        loads = Loads()
        async with FakeEngine(tmp_path, MODEL, vocabulary=b"something else") as endpoint:
            with pytest.raises(EngineError, match="another vocabulary than it uses"):
                await HttpClient.connect(endpoint, tmp_path / "cache", load=loads)
        async with FakeEngine(tmp_path, ModelFile(MODEL.path, "d", "../../etc")) as endpoint:
            with pytest.raises(EngineError, match="no digest"):
                await HttpClient.connect(endpoint, tmp_path / "cache", load=loads)
        assert not loads.paths and not (tmp_path / "cache").exists()

    run(main)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b/CodeGemma-2b.Q8_0.gguf", "CodeGemma-2b.Q8_0.gguf"), (r"C:\models\m.gguf", "m.gguf"), ("", "model.gguf"),
        ("/x/..", "model.gguf"), ("/x/.hidden.gguf", "hidden.gguf"), ("/x/a b\n\0é.gguf", "a_b___.gguf"),
        ("/x/m.bin", "m.bin.gguf"),
        ("/x/" + "y" * 500 + ".gguf", "y" * 115 + ".gguf"),
    ],
)  # fmt: skip
def test_names_of_kept_vocabularies(path: str, name: str) -> None:
    assert file_name(path) == name and re.fullmatch(r"[\w.+-]+", name)


# -- engines that misbehave


class FakeEngine:
    """A server that greets like an engine, for what a real one never does. answer: what a completion gets."""

    def __init__(
        self, directory: Path, model: ModelFile, *, vocabulary: bytes = b"",
        answer: Callable[[web.Request], Any] | None = None, hello: dict[str, Any] | None = None,
        news: list[News] | None = None,
    ) -> None:  # fmt: skip
        self._path = directory / "fake" / "e.sock"
        greeting = {
            "protocol": PROTOCOL, "version": "1", "pid": 1, "model_name": "fake", "model_path": str(model.path),
            "model_digest": model.digest, "vocab_digest": model.vocab_digest, "settings_digest": "", "settings": {},
            "n_ctx": 512, "costs": {"prefill_ms_per_token": 1, "step_ms": 2}, "counters": {}, "news": {"state": "ready"},
            **(hello or {}),
        }  # fmt: skip
        told = news or [News(EngineState.READY)]

        async def lease(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for each in told:
                await response.write(sse.frame(to_json(each)))
                await asyncio.sleep(0.01)
            await self._over.wait()
            return response

        async def vocab(_: web.Request) -> web.Response:
            return web.Response(body=vocabulary)

        async def greet(_: web.Request) -> web.Response:
            return web.Response(body=to_json(greeting))

        app = web.Application()
        app.add_routes([web.get("/midfill/hello", greet), web.get("/midfill/lease", lease)])
        app.add_routes([web.get("/midfill/vocab/{digest}", vocab)])
        if answer is not None:
            app.add_routes([web.post("/v1/completions", answer), web.post("/midfill/reusable", answer)])
        self._runner = web.AppRunner(app, handler_cancellation=True)
        self._over = asyncio.Event()

    async def __aenter__(self) -> Endpoint:
        await self._runner.setup()
        await web.SockSite(self._runner, unix_socket.listen(self._path)).start()
        return Endpoint(socket=self._path)

    def end_lease(self) -> None:
        self._over.set()

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await self._runner.cleanup()
        self._path.unlink()


def event(text: str, finish: FinishReason | None = None) -> bytes:
    said = TokenEvent(1, text, GenerationStats(n_prompt=2), finish)
    return sse.frame(encode_completion(Envelope("x", "m", 1), said))


EVENT, LAST = event("é🦊"), event("end", FinishReason.STOP)


def streamed(pieces: list[bytes], *, breaks_off: bool = False, hangs: bool = False) -> Callable[[web.Request], Any]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        if hangs:
            await asyncio.sleep(60)
        if breaks_off and request.transport is not None:
            request.transport.abort()
        return response

    return answer


async def against(tmp_path: Path, model: ModelFile, answer: Callable[[web.Request], Any]) -> list[Any]:
    """Events of a request that is answered so; the client is as well afterwards as before."""
    async with FakeEngine(tmp_path, model, answer=answer) as endpoint:
        client = await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads())
        stream = client.submit(GenerationRequest(5, (1, 2)))
        found = await events(stream)
        await until(lambda: stream._task.done())
        assert stream._events.empty() and client.state is State.CONNECTED and not client._link.streams
        await client.aclose()
    return found


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, len(EVENT) + len(LAST)), max_size=12))
def test_a_stream_may_be_cut_anywhere(tmp_path: Path, model: ModelFile, cuts: list[int]) -> None:
    whole = sse.comment() + EVENT + LAST + sse.frame(sse.DONE)
    borders = [0, *sorted(cuts), len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(borders)]
    found = run(lambda: against(tmp_path, model, streamed(pieces)))
    assert [(e.text, e.finish) for e in found] == [("é🦊", None), ("end", FinishReason.STOP)]
    assert {(e.request_id, e.stats.n_prompt) for e in found} == {(5, 2)}


def plain(status: int, body: bytes) -> Callable[[web.Request], Any]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    return answer


@pytest.mark.parametrize(
    ("answer", "says", "text"),
    [
        (streamed([EVENT]), "lost", "é🦊"),
        (streamed([EVENT], breaks_off=True), "lost", "é🦊"),
        (streamed([]), "lost", ""),
        (streamed([EVENT, b"data: {]\n\n"]), "not JSON", "é🦊"),
        (streamed([EVENT, b'data: {"midfill":{"stats":{"n_prompt":"x"}}}\n\n']), "n_prompt", "é🦊"),
        (streamed([EVENT, b"data: " + b"x" * (sse.LIMIT + 9)]), "without end", "é🦊"),
        (streamed([LAST, LAST, EVENT]), None, "end"),
        (plain(503, b'{"error":{"message":"Not now."}}'), "Not now.", ""),
        (plain(502, b"<html>bad gateway</html>"), "status 502", ""),
        (plain(500, b"[" * 50_000), "status 500", ""),
        (plain(200, b'{"no":"stream"}'), "lost", ""),
    ],
)  # fmt: skip
def test_whatever_an_engine_says_there_is_one_end(
    tmp_path: Path, model: ModelFile, answer: Any, says: str | None, text: str
) -> None:
    found = run(lambda: against(tmp_path, model, answer))
    assert text_of(found) == text
    if says is None:
        assert found[-1].finish is FinishReason.STOP
    else:
        assert found[-1].finish is FinishReason.ERROR and says in found[-1].error
        assert "\n" not in found[-1].error


@pytest.mark.parametrize("body", [b"", b"{}", b'{"n":"1"}', b'{"n":-1}', b'{"n":3}', b'{"n":true}', b"[1]", b'{"n":1.0}'])
def test_what_is_no_length_counts_as_none(tmp_path: Path, model: ModelFile, body: bytes) -> None:
    async def main() -> None:
        async with FakeEngine(tmp_path, model, answer=plain(200, body)) as endpoint:
            client = await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads())
            assert await client.n_reusable((1, 2)) == 0
            await client.aclose()

    run(main)


@pytest.mark.parametrize(
    ("hello", "news", "says"),
    [
        ({"protocol": PROTOCOL + 1}, None, f"speaks protocol {PROTOCOL + 1}"),
        ({"protocol": "x"}, None, "hello.protocol"),
        ({"counters": 5}, None, "hello.counters"),
        ({"n_ctx": 0}, None, "does not know its model yet"),
        ({"costs": None}, None, "does not know its model yet"),
        ({}, [News(EngineState.LOADING, 0.1), News(EngineState.FAILED, why="The file is cut.")], "The file is cut."),
        ({}, [News(EngineState.DRAINING)], "about to end"),
    ],
)
def test_engines_that_can_not_be_used(tmp_path: Path, model: ModelFile, hello: Any, news: Any, says: str) -> None:
    async def main() -> None:
        lost: list[str] = []
        async with FakeEngine(tmp_path, model, hello=hello, news=news) as endpoint:
            with pytest.raises(EngineError, match=re.escape(says)):
                await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads(), on_lost=lost.append)
        assert not lost, "what was never connected is not lost"

    run(main)


def test_an_engine_that_ends_while_it_loads_was_never_connected(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        lost: list[str] = []
        engine = FakeEngine(tmp_path, model, news=[News(EngineState.LOADING, 0.1)])
        async with engine as endpoint:
            hears = {"on_lost": lost.append, "on_news": lambda _: engine.end_lease()}
            with pytest.raises(Gone, match="has ended"):
                await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads(), **hears)
        assert not lost

    run(main)


def test_what_hangs_ends_with_the_lease(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        lost: list[str] = []
        engine = FakeEngine(tmp_path, model, answer=streamed([EVENT], hangs=True))
        async with engine as endpoint:
            client = await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads(), on_lost=lost.append)
            streams = [client.submit(GenerationRequest(i, (1, 2))) for i in range(3)]
            assert [(await stream.next()).text for stream in streams] == ["é🦊"] * 3
            engine.end_lease()
            assert [(e.finish, e.error) for e in await asyncio.gather(*(stream.next() for stream in streams))] == [
                (FinishReason.ERROR, "The engine has ended.")
            ] * 3
            assert lost == ["The engine has ended."]
            await client.aclose()

    run(main)


def test_it_waits_for_the_model_and_tells_how_far_it_is(tmp_path: Path, model: ModelFile) -> None:
    told = [News(EngineState.LOADING, 0.1), News(EngineState.LOADING, 0.9), News(EngineState.READY)]

    async def main() -> None:
        heard: list[News] = []
        async with FakeEngine(tmp_path, model, news=told) as endpoint:
            client = await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads(), on_news=heard.append)
            assert heard == told and client.news == told[-1]
            await client.aclose()

    run(main)


def test_a_kept_connection_that_was_closed_meanwhile_does_not_matter(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with serving(tmp_path, model=model) as served:
            client = await connect(served, tmp_path)
            for _ in range(5):
                assert text_of(await events(client.submit(GenerationRequest(1, (1, 2), n_max=3))))
                for connection in served.parts.doors[0]._server.connections:
                    if not connection._request_in_progress and connection.transport is not None:
                        connection.transport.abort()  # while the next request is on its way
            assert client.state is State.CONNECTED
            await client.aclose()

    run(main)


def test_cancelling_falls_back_to_closing(tmp_path: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_link, "_CANCELLED_S", 0.05)
    monkeypatch.setattr(http_link, "_ACCEPTED_S", 0.05)

    async def never(request: web.Request) -> web.StreamResponse:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            closed.append(1)
            raise
        raise AssertionError

    closed: list[int] = []

    async def main() -> None:
        async with FakeEngine(tmp_path, model, answer=never) as endpoint:
            client = await HttpClient.connect(endpoint, tmp_path / "cache", load=Loads())
            stream = client.submit(GenerationRequest(5, (1, 2)))
            await asyncio.sleep(0.02)
            stream.cancel()
            assert [e.finish for e in await events(stream)] == [FinishReason.CANCELLED]
            await until(lambda: closed)
            await client.aclose()

    run(main)


def test_questions_of_a_session_are_bounded(tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        async with serving(tmp_path, model=model) as served, Session(endpoint_of(served)) as session:
            whole = await session.ask("GET", "/midfill/vocab")
            assert len(whole) == len(cut_vocabulary(model.path))
            with pytest.raises(Gone, match="more than 100 bytes"):
                await session.ask("GET", "/midfill/vocab", most=100)
            with pytest.raises(Refusal) as caught:
                await session.ask("GET", "/nothing")
            assert caught.value.status == 404

    run(main)
