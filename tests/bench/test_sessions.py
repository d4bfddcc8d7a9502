"""Several sessions on one engine: the parts of the bench on the fake, the engine's process on a tiny real model, the report."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench import session_parts, sessions
from bench.errors import BenchError
from bench.progress import Progress
from bench.prompts import Prompts, Typing
from bench.served import Served, finished, only_prompt, prefill
from bench.session_parts import Setup
from bench.session_report import Samples, bars, report, table
from bench.slots import Generated, generated
from bench.window import Load, Window
from inference.clients.local import LocalClient
from inference.config import EngineConfig
from inference.engine import Engine
from inference.types import Costs, FinishReason, GenerationRequest, GenerationStats, Priority
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.tiny_gguf import write_tiny

VOCAB = FakeVocab()
SETUP = Setup(
    model=Path("fake"), n=3, n_threads=1, n_rounds=2, n_predict=6, n_prompt=100, n_long=150, n_known=4, n_keys=5, pace_s=0.01
)


@dataclass
class Asked:
    """A client that remembers: requests and how each ended, in the order of their ends."""

    client: LocalClient
    backend: FakeBackend
    requests: list[GenerationRequest] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    stats: list[tuple[GenerationRequest, GenerationStats]] = field(default_factory=list)

    def watch(self) -> None:
        submit = self.client.submit

        def noted(request: GenerationRequest) -> Any:
            self.requests.append(request)
            stream = submit(request)
            cancel, next_ = stream.cancel, stream.next

            def cancelling() -> None:
                self.cancelled.append(request.request_id)
                cancel()

            async def next_event() -> Any:
                event = await next_()
                if event.finish is not None:
                    self.stats.append((request, event.stats))
                return event

            stream.cancel, stream.next = cancelling, next_event  # type: ignore[method-assign]
            return stream

        self.client.submit = noted  # type: ignore[method-assign]


@asynccontextmanager
async def engine(n_sequences: int = 4, n_stowed: int = 16) -> AsyncIterator[Asked]:
    """It never ends by itself."""
    backend = FakeBackend(VOCAB, n_ctx=8192, n_batch=64, n_seq_max=n_sequences + 1)
    backend.script_always = lambda tokens: ord("a") + sum(tokens[-8:]) % 26
    made = Engine(backend, n_ctx=2048, n_sequences=n_sequences, costs=Costs(1.0, 1.0), n_stowed=n_stowed, stow_bytes=1 << 30)
    asked = Asked(LocalClient(made, VOCAB, "fake"), backend)
    asked.watch()
    try:
        yield asked
    finally:
        await asked.client.aclose()


def run(main: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main(), 60))


class FakeServed:
    """In the place of `Served`: each an engine of its own in this process."""

    made: list[FakeServed]

    def __init__(self, model: Path, config: EngineConfig) -> None:
        self.config = config
        self.n_clients = 0
        self.made.append(self)

    async def __aenter__(self) -> FakeServed:
        self._context = engine(self.config.n_sequences, self.config.n_stowed)
        self.asked = await self._context.__aenter__()
        self.client = self.asked.client
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._context.__aexit__(*error)

    async def connect(self) -> LocalClient:
        self.n_clients += 1
        return self.client

    async def n_background(self) -> int:
        return self.client.counters().background


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[FakeServed]:
    FakeServed.made = []
    monkeypatch.setattr(session_parts, "Served", FakeServed)
    return FakeServed.made


# --- prompts


def test_prompts_are_long_enough_and_begin_like_no_other() -> None:
    prompts = Prompts(VOCAB, "fake")
    n = prompts.n_files + 3
    made = [prompts.in_the_middle(i, 600) for i in range(n)] + [prompts.at_the_end(i, 600) for i in range(n)]
    assert all(450 <= len(tokens) <= 600 for tokens in made)
    assert len({tokens[:60] for tokens in made[:n]}) == n
    suffix = VOCAB.control["<|fim_suffix|>"]
    ends = [tokens[tokens.index(suffix) + 1 :] for tokens in made]
    assert all(len(end) > 20 for end in ends[:n]) and all(len(end) <= 1 for end in ends[n:])


def test_what_is_typed_stood_in_the_file_and_is_healed_key_by_key() -> None:
    typing = Prompts(VOCAB, "fake").typing(0, 300, 30)
    assert len(typing.keys) == 30
    typed = VOCAB.text(typing.typed)
    so_far = [VOCAB.text(key.tokens[len(typing.base) :]) + key.heal for key in typing.keys]
    assert all(key.tokens[: len(typing.base)] == typing.base for key in typing.keys)
    assert so_far[-1] == typed and all(typed.startswith(text) for text in so_far)
    assert sorted(so_far, key=len) == so_far and len(set(so_far)) == 30
    assert typed not in VOCAB.text(typing.base)


# --- a window, and what runs beside it


def test_an_opened_prompt_is_resident_and_nothing_behind_it_is() -> None:
    async def main() -> None:
        async with engine() as asked:
            prompt = VOCAB.encode(b"value = self.total\nfor item in list:\n")
            for _ in range(2):  # the second time after something was generated
                await only_prompt(asked.client, prompt)
                event = await finished(asked.client, GenerationRequest(asked.client.next_id(), prompt, n_max=9))
                assert (event.stats.n_generated, event.stats.n_reused) == (9, len(prompt))
                assert event.stats.n_steps == 8, "the first token is that of the kept logits, the others are evaluated anew"

    run(main)


def test_every_key_asks_and_ends_the_one_before_after_it_was_submitted() -> None:
    async def main() -> None:
        async with engine() as asked:
            typing = Prompts(VOCAB, "fake").typing(0, 200, 6)
            typist = Window(asked.client, typing, 0.0)
            await typist.open()
            asked.requests.clear()
            asked.stats.clear()
            times = await typist.type()
            assert len(times) == 6 and all(ms > 0 for ms in times)
            assert [(r.tokens, r.heal) for r in asked.requests] == [(k.tokens, k.heal) for k in typing.keys]
            assert {r.priority for r in asked.requests} == {Priority.TYPING}
            ids = [r.request_id for r in asked.requests]
            assert asked.cancelled == sorted(asked.cancelled) and set(asked.cancelled) <= set(ids)
            assert len(asked.stats) == 6, "all have ended"

    run(main)


def test_a_key_after_which_the_model_says_nothing_has_no_first_byte() -> None:
    async def main() -> None:
        async with engine() as asked:
            typing = Prompts(VOCAB, "fake").typing(0, 200, 4)
            asked.backend.script_always = lambda tokens: VOCAB.eos
            typist = Window(asked.client, replace(typing, keys=tuple(replace(k, heal=b"") for k in typing.keys)), 0.0)
            assert await typist.type() == []

    run(main)


def test_an_engine_that_fails_ends_the_bench_with_its_words() -> None:
    async def main() -> None:
        async with engine() as asked:
            key = Prompts(VOCAB, "fake").typing(0, 200, 1).keys[0]
            too_long = replace(key, tokens=key.tokens * 20)
            with pytest.raises(BenchError, match="the context only 2048"):
                await Window(asked.client, Typing((), (), (too_long,)), 0.0).type()
            with pytest.raises(BenchError, match="the context only"):
                await prefill(asked.client, too_long.tokens)
            with pytest.raises(BenchError, match="the background failed"):
                async with Load(asked.client, [too_long.tokens], key.tokens, itertools.count()):
                    await asyncio.sleep(0.2)

    run(main)


def test_the_load_is_at_work_from_its_beginning_to_its_end_and_never_known() -> None:
    async def main() -> None:
        async with engine() as asked:
            prompts = Prompts(VOCAB, "fake")
            load = [prompts.in_the_middle(i, 150) for i in range(2)]
            async with Load(asked.client, load, prompts.at_the_end(5, 60), itertools.count()):
                before = asked.client.counters()
                while len(asked.stats) < 8:
                    await asyncio.sleep(0.005)
                assert asked.client.counters().background > before.background
            lower = [r for r in asked.requests if r.priority is Priority.BACKGROUND]
            assert {r.n_max for r in lower} == {0, 512}
            done = [(r, s) for r, s in asked.stats if r.n_max == 0 and r.priority is Priority.BACKGROUND]
            assert len({r.tokens for r, _ in done}) == len(done) > 2
            assert all(s.n_evaluated > 100 for _, s in done[:-1]), "of what is prefilled nothing was known"
            assert len(asked.stats) == len(asked.requests), "nothing is left running"

    run(main)


# --- the parts


def test_keys_alone_under_load_and_with_a_second_window(served: list[FakeServed], capsys: pytest.CaptureFixture[str]) -> None:
    samples = Samples()
    run(lambda: session_parts.typing(SETUP, samples, Progress("round")))
    (one,) = served
    assert {name: len(times) for name, times in samples.first_ms.items()} == dict.fromkeys(
        ("alone", "under_load", "two_windows", "two_without_load"), 2 * 5
    )
    assert samples.counts["keys"] == 10 and samples.counts["background_tokens_under_load"] > 0
    assert one.n_clients == 1, "the second window is another client"
    assert "typing" in capsys.readouterr().err


def test_a_keystroke_step_with_one_and_with_many_known(served: list[FakeServed]) -> None:
    samples = Samples()
    run(lambda: session_parts.known(SETUP, samples, Progress("round")))
    one, many = served
    assert {name: len(times) for name, times in samples.step_ms.items()} == {"one": 10, "many": 10}
    assert samples.counts["known_sequences"] == 4 and samples.counts["known_tokens"] > 4 * 100
    assert samples.counts["keystroke_rows_one_known"] == samples.counts["keystroke_rows_many_known"] == 10
    assert samples.counts["burst_prefill_rows"] >= samples.counts["burst_prefill_tokens"] > 50
    share = samples.counts["burst_prefill_rows"] / samples.counts["burst_prefill_tokens"] - 1
    assert samples.counts["evaluated_twice_share"] == round(share, 4) >= 0
    assert samples.counts["burst_keys"] > 0
    lower = [r.tokens for r in many.asked.requests if r.priority is Priority.BACKGROUND]
    assert [len(tokens) for tokens in lower] == [samples.counts["burst_prefill_tokens"]]
    assert len({r.tokens[:60] for r in many.asked.requests}) == 4
    assert len({r.tokens[:60] for r in one.asked.requests}) == 1


def test_what_the_engine_does_not_know_is_no_figure(served: list[FakeServed], monkeypatch: pytest.MonkeyPatch) -> None:
    async def forgetful(self: LocalClient, tokens: Any) -> int:
        return len(tokens) - 1

    monkeypatch.setattr(LocalClient, "n_reusable", forgetful)
    with pytest.raises(BenchError, match="knows"):
        run(lambda: session_parts.known(SETUP, Samples(), Progress("round")))


def test_throughput_of_three_sides_in_turn(served: list[FakeServed], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class FakePeer:
        def __init__(self, model: str, **options: int) -> None:
            self.options = options

        def __enter__(self) -> FakePeer:
            return self

        def __exit__(self, *error: Any) -> None:
            assert self.options["n_parallel"] == 3 and self.options["n_ctx"] >= 3 * 106

        def wait_until_idle(self) -> None:
            """It is."""

    def ask_all(peer: FakePeer, prompts: list[tuple[int, ...]], n_predict: int) -> list[Generated]:
        asked.append((len(prompts), n_predict))
        return [Generated(1, n_predict) for _ in prompts]

    monkeypatch.setattr(session_parts, "Peer", FakePeer)
    monkeypatch.setattr(session_parts, "ask_all", ask_all)
    samples = Samples()
    run(lambda: session_parts.throughput(SETUP, samples, Progress("round")))
    assert asked == [(3, 1), (3, 6), (3, 6)]
    assert {name: len(tps) for name, tps in samples.tps.items()} == {"sequential": 2, "batched": 2, "llama_server": 2}
    assert {samples.counts[f"{side}_tokens"] for side in samples.tps} == {2 * 3 * 6}
    assert samples.counts["prompt_tokens_evaluated"] == 2 * 2 * 3, "all but the last token was resident"
    assert samples.counts["llama_server_prompt_tokens_evaluated"] == 2 * 3
    (one,) = served
    timed = [r for r in one.asked.requests if r.n_max]
    assert len(timed) == 2 * 2 * 3
    assert max(len({row.seq for row in rows}) for rows in one.asked.backend.decoded) == 3, "they were batched"


# --- the report


def test_the_report_has_the_agreed_names_and_its_bars_can_be_missed() -> None:
    samples = Samples(
        tps={"sequential": [30.0, 10.0, 31.0], "batched": [60.0], "llama_server": [64.0]},
        first_ms={"alone": [40.0, 42.0, 500.0], "under_load": [63.0], "two_windows": [84.1]},
        step_ms={"one": [27.0], "many": [31.1]},
        counts={"evaluated_twice_share": 0.14},
    )
    made = report(samples, {"n": 8})
    assert {k: made[k] for k in list(made)[:6]} == {
        "sequential_tps": 30.0, "batched_tps": 60.0, "llama_server_tps": 64.0, "typing_first_byte_alone_ms": 42.0,
        "typing_first_byte_under_load_ms": 63.0, "typing_first_byte_two_windows_ms": 84.1,
    }  # fmt: skip
    assert made["typing_first_byte_alone_p95_ms"] == 500.0
    assert [(bar.value, bar.verdict) for bar in bars(made)] == [
        (1.5, "pass"), (21.0, "pass"), (2.002, "miss"), (0.14, "pass"), (1.152, "miss"), (2.0, "pass"), (0.938, "miss"),
    ]  # fmt: skip
    late = bars({**made, "typing_first_byte_under_load_ms": 92.1, "batched_tps": 47.9, "evaluated_twice_share": 0.16})
    assert [bar.verdict for bar in late] == ["miss", "miss", "miss", "miss", "miss", "miss", "miss"]
    assert table(made).count("miss") == 3


def test_what_was_left_out_is_null_and_neither_passed_nor_missed() -> None:
    made = report(Samples(), {})
    assert made["batched_tps"] is None and {bar.verdict for bar in bars(made)} == {"not measured"}
    assert "not measured" in table(made)


def test_the_last_event_of_a_slot_counts() -> None:
    lines = [
        b'data: {"content":"a","stop":false}\n',
        b"\n",
        b'data: {"content":"","stop":true,"timings":{"prompt_n":1,"predicted_n":9}}\n',
    ]
    assert generated(lines) == Generated(1, 9)
    with pytest.raises(BenchError, match="middle"):
        generated(lines[:1])


def test_one_known_prompt_is_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        sessions.main(["--known", "1"])
    assert "2 or more" in capsys.readouterr().err


def test_nothing_is_measured_with_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert sessions.main(["--model", str(tmp_path / "none.gguf")]) == 1
    assert "none.gguf" in capsys.readouterr().err


# --- the engine's process


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", name="qwen-tiny")


def test_the_process_is_the_launchers_and_nothing_of_it_is_left(model: Path) -> None:
    async def main() -> tuple[int, str]:
        config = EngineConfig(n_ctx=512, n_threads=1, prefill_ms_per_token=1.0, step_ms=1.0, linger_s=0.0)
        async with Served(model, config) as served:
            client = served.client
            tokens = client.vocab.encode(b"value = 1\n" * 9)
            await prefill(client, tokens)
            event = await finished(client, GenerationRequest(client.next_id(), tokens, n_max=0, priority=Priority.BACKGROUND))
            assert (event.finish, event.stats.n_reused) == (FinishReason.RESIDENT, len(tokens))
            before = await served.n_background()
            fresh = GenerationRequest(client.next_id(), tokens[::-1], n_max=0, priority=Priority.BACKGROUND)
            await finished(client, fresh)
            assert await served.n_background() - before >= len(tokens)
            assert json.loads(await client.stats())["leases"] == 1
            return client.hello.pid, served._home.name

    pid, home = run(main)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not Path(home).exists()
