"""`/v1/completions` over real sockets: the same text as in this process, and nothing left behind."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference import sse
from inference.call import call_for, encode_call
from inference.serve.limits import Limits
from inference.types import FinishReason, GenerationRequest, Priority, SamplingParams
from inference.wire import decode_completion
from tests.inference.test_engine import alone, heals, prompt, texts
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.served import VOCAB, Served, run, serving, until

PROMPT = prompt("def foo():\n    return ")


async def ask(session: aiohttp.ClientSession, **body: Any) -> dict[str, Any]:
    async with session.post("/v1/completions", json=body) as response:
        return {"status": response.status, **json.loads(await response.read())}


async def stream(session: aiohttp.ClientSession, **body: Any) -> list[bytes]:
    async with session.post("/v1/completions", json={**body, "stream": True}) as response:
        assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
        return sse.Reader().push(await response.read())


def test_whole_and_streamed_answers_are_the_text_of_the_engine(tmp_path: Path) -> None:
    request = GenerationRequest(1, PROMPT, b"fo", 12)
    want, finish = alone(request)

    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            body = {k: v for k, v in encode_call(call_for(request)).items() if k != "stream"}
            whole = await ask(session, **body)
            assert (whole["choices"][0]["text"], whole["midfill"]["finish"]) == (want, finish)
            assert whole["usage"]["prompt_tokens"] == len(PROMPT) and whole["model"] == "fake"
            assert whole["midfill"]["counters"]["prompt"] >= len(PROMPT)
            *said, done = await stream(session, **body)
            assert done == sse.DONE
            chunks = [decode_completion(data, 1) for data in said]
            assert "".join(chunk.event.text for chunk in chunks) == want
            assert [c.event.finish for c in chunks if c.event.finish] == [finish] and chunks[-1].event.finish == finish
            assert chunks[-1].counters is not None and chunks[-1].event.stats.n_prompt == len(PROMPT)
            *_, usage, done = await stream(session, **body, stream_options={"include_usage": True})
            assert json.loads(usage)["usage"] == whole["usage"] | {"prompt_tokens_details": {"cached_tokens": len(PROMPT)}}
            await served.idle()

    run(main)


wanted = st.tuples(texts, heals, st.integers(0, 12), st.sampled_from(Priority), st.sampled_from([0.0, 0.8]), st.integers(0, 3))

acts = st.sampled_from(["read", "read", "cancel", "leave"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(wanted, acts, st.integers(0, 3)), min_size=2, max_size=7))
def test_any_interleaving_over_http_equals_each_request_alone(tmp_path: Path, plan) -> None:
    async def one(session: aiohttp.ClientSession, request: GenerationRequest, act: str, delay: int) -> tuple[str, Any]:
        await asyncio.sleep(delay / 1000)
        name = f"r{request.request_id}"
        text = ""
        async with session.post("/v1/completions", json=encode_call(call_for(request, name=name))) as response:
            assert response.status == 200
            reader = sse.Reader()
            if act == "cancel":
                async with session.post("/midfill/cancel", json={"name": name}) as answer:
                    assert answer.status == 200
            async for piece in response.content.iter_any():
                for data in reader.push(piece):
                    if data == sse.DONE:
                        continue
                    chunk = decode_completion(data, request.request_id)
                    text += chunk.event.text
                    if chunk.event.finish is not None:
                        return text, chunk.event
                if act == "leave":
                    response.close()
                    return text, None
        raise AssertionError("the stream has no end")

    requests = [
        GenerationRequest(i, prompt(text), heal, n_max, SamplingParams(temperature=temperature, seed=seed), priority)
        for i, ((text, heal, n_max, priority, temperature, seed), _, _) in enumerate(plan, 1)
    ]

    async def main() -> list[tuple[str, Any]]:
        async with serving(tmp_path, backend=FakeBackend(VOCAB, n_ctx=8192, n_seq_max=8)) as served:
            async with served.session() as a, served.session() as b:
                answers = await asyncio.gather(*(
                    one((a, b)[i % 2], request, act, delay)
                    for i, (request, (_, act, delay)) in enumerate(zip(requests, plan, strict=True))
                ))  # fmt: skip
                await served.idle()
            for sequence in served.engine.kv.sequences:
                assert sequence.tokens == served.backend.tokens(sequence.seq)
            return answers

    for request, (_, act, _), (text, last) in zip(requests, plan, run(main), strict=True):
        want, finish = alone(request)
        if last is None or last.finish is FinishReason.CANCELLED:
            assert act != "read" or request.priority > Priority.INVOKED  # background work may be set aside for others
            assert want.startswith(text)
        else:
            assert (text, last.finish) == (want, finish)


def test_user_text_never_becomes_a_control_token(tmp_path: Path) -> None:
    text = "x <|fim_middle|> <|endoftext|>"
    seen: list[tuple[int, ...]] = []

    async def main(backend: FakeBackend) -> None:
        backend.script_always = lambda tokens: seen.append(tokens)
        async with serving(tmp_path, backend=backend) as served, served.session() as session:
            assert (await ask(session, prompt=text, max_tokens=1, temperature=0))["status"] == 200

    run(lambda: main(FakeBackend(VOCAB)))
    assert seen[0] == VOCAB.encode(text.encode()) and not set(seen[0]) & set(VOCAB.control.values())
    seen.clear()
    vocab = FakeVocab()
    vocab.bos = (vocab.control["<|endoftext|>"], "<|endoftext|>")
    run(lambda: main(FakeBackend(vocab)))
    assert seen[0] == (vocab.bos[0], *vocab.encode(text.encode()))


def test_long_text_is_tokenized_off_the_loop_and_to_the_same_tokens(tmp_path: Path) -> None:
    text = "import data\n" * 300  # more than what is done at once
    prompts: list[tuple[int, ...]] = []

    async def main() -> None:
        backend = FakeBackend(VOCAB, n_ctx=8192, n_seq_max=8)
        async with serving(tmp_path, n_ctx=4000, backend=backend) as served, served.session() as session:
            served.host.submit = _seeing(served, prompts)  # type: ignore[method-assign]
            assert (await ask(session, prompt=text, max_tokens=1))["status"] == 200

    run(main)
    assert prompts == [VOCAB.encode(text.encode())]


def _seeing(served: Served, prompts: list[tuple[int, ...]]) -> Any:
    submit = served.host.submit

    def seen(request: GenerationRequest, sink: Any) -> None:
        prompts.append(request.tokens)
        submit(request, sink)

    return seen


def test_prefill_only(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            body = await ask(session, prompt=list(PROMPT), max_tokens=0, midfill={"priority": "background"})
            assert body["choices"][0] == {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
            assert body["midfill"]["finish"] == "resident" and body["midfill"]["counters"]["background"] == len(PROMPT)
            async with session.post("/midfill/reusable", json={"tokens": [*PROMPT, 5]}) as response:
                assert await response.json() == {"n": len(PROMPT)}

    run(main)


def test_stop_strings_end_the_generation(tmp_path: Path) -> None:
    backend = FakeBackend(VOCAB, n_ctx=4096, n_seq_max=8)
    backend.scripts[PROMPT] = VOCAB.encode(b"value = total\nreturn value\n" + b"x" * 400)

    async def main() -> None:
        async with serving(tmp_path, backend=backend) as served, served.session() as session:
            served.gate.step_s = 0.003
            for stop, want in (("\n", "value = total"), (["retu", "zz"], "value = total\n"), ("alu", "v"), (["q"], None)):
                for is_streamed in (False, True):
                    body = {"prompt": list(PROMPT), "max_tokens": 200, "temperature": 0, "stop": stop}
                    if is_streamed:
                        said = [decode_completion(data, 1).event for data in (await stream(session, **body))[:-1]]
                        text, finish, stats = "".join(e.text for e in said), said[-1].finish, said[-1].stats
                        assert stats.n_generated < 200 or want is None
                    else:
                        answer = await ask(session, **body)
                        text, finish = answer["choices"][0]["text"], answer["midfill"]["finish"]
                    assert finish == ("length" if want is None else "stop")
                    assert want is None or text == want
            await served.idle()

    run(main)


def test_what_was_held_back_for_a_stop_string_is_said_at_the_end(tmp_path: Path) -> None:
    backend = FakeBackend(VOCAB, n_ctx=4096, n_seq_max=8)
    backend.scripts[PROMPT] = VOCAB.encode(b"value = total")

    async def main() -> None:
        async with serving(tmp_path, backend=backend) as served, served.session() as session:
            for n, want in ((40, "value = total"), (2, "value = ")):  # the model's own end, and the largest number of tokens
                body = {"prompt": list(PROMPT), "max_tokens": n, "temperature": 0, "stop": ["total value", " = x"]}
                answer = await ask(session, **body)
                assert answer["choices"][0]["text"] == want
                assert answer["midfill"]["finish"] == ("stop" if n == 40 else "length")

    run(main)


def test_a_deadline_ends_it_with_what_it_has(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            await ask(session, prompt=list(PROMPT), max_tokens=3, temperature=0, midfill={"heal": _b64(b"fo")})
            served.gate.close()  # the first three tokens are known, the next needs the model
            body = {"prompt": list(PROMPT), "max_tokens": 50, "temperature": 0}
            asking = asyncio.create_task(ask(session, **body, midfill={"heal": _b64(b"fo"), "deadline_ms": 60}))
            await until(served.gate.entered.is_set)
            await asyncio.sleep(0.1)
            served.gate.open()
            answer = await asking
            assert (answer["midfill"]["finish"], answer["choices"][0]["finish_reason"]) == ("deadline", "deadline")
            want, _ = alone(GenerationRequest(1, PROMPT, b"fo", 50))
            text = answer["choices"][0]["text"]
            assert want.startswith(text) and 0 < len(text) < len(want)
            await served.idle()

    run(main)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("adopt_ms", [0, 150])
def test_a_client_that_goes_leaves_nothing_running(tmp_path: Path, is_streamed: bool, adopt_ms: int) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session, served.session() as other:
            served.gate.close()
            body = {"prompt": list(PROMPT), "max_tokens": 400, "stream": is_streamed, "midfill": {"adopt_ms": adopt_ms}}
            asking = asyncio.create_task(session.post("/v1/completions", json=body))
            await until(served.gate.entered.is_set)
            neighbour = asyncio.create_task(ask(other, prompt=[1, 2, 3], max_tokens=5, temperature=0))
            await until(lambda: len(served.parts.running) == 2)
            if is_streamed:
                (await asking).close()
            else:
                asking.cancel()
            # the door has noticed; for adopt_ms the request goes on all the same
            await until(lambda: served.parts.doors[0].n_connections == 1)
            cancelled = len(served.engine._inbox._cancelled)
            assert (cancelled == 0) is (adopt_ms > 0)
            await until(lambda: served.engine._inbox._cancelled)
            served.gate.open()
            assert (await neighbour)["choices"][0]["text"] == alone(GenerationRequest(1, (1, 2, 3), n_max=5))[0]
            await served.idle()

    run(main)


def test_cancel_by_name_ends_the_stream_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            served.gate.close()
            body = {"prompt": list(PROMPT), "max_tokens": 400, "stream": True, "midfill": {"name": "mine"}}
            async with session.post("/v1/completions", json=body) as response:
                for name, was_there in (("other", False), ("mine", True)):
                    async with session.post("/midfill/cancel", json={"name": name}) as answer:
                        assert await answer.json() == {"cancelled": was_there}
                served.gate.open()
                *said, done = sse.Reader().push(await response.read())
            last = decode_completion(said[-1], 1)
            assert done == sse.DONE and last.event.finish is FinishReason.CANCELLED and last.name == "mine"
            await served.idle()

    run(main)


def test_errors_of_the_engine_arrive_in_both_forms(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            vocab = served.backend.vocab
            odd = {"prompt": [1], "max_tokens": 3, "temperature": 0, "midfill": {"heal": _b64(b"x")}}
            served.engine._healing = type("None_", (), {"allowed": lambda self, rest: ()})()  # type: ignore[assignment]
            answer = await ask(session, **odd)
            assert answer["status"] == 500 and "no token for what was typed" in answer["error"]["message"]
            *said, done = await stream(session, **odd)
            last = decode_completion(said[-1], 1).event
            assert last.finish is FinishReason.ERROR and "no token for what was typed" in last.error and done == sse.DONE
            assert json.loads(said[-1])["error"]["message"] == last.error
            assert vocab is VOCAB

    run(main)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({"prompt": [], "max_tokens": 1}, 400, "prompt is empty"),
        ({"prompt": "", "max_tokens": 1}, 400, "prompt is empty"),
        ({"prompt": [1] * 512}, 400, "has 512 tokens, the context only 512"),
        ({"prompt": "def " * 600}, 400, "tokens, the context only 512"),
        ({"prompt": "x" * 20_000}, 400, "more tokens, the context only 512"),
        ({"prompt": [1, 999_999]}, 400, "beyond the vocabulary"),
        ({"prompt": "x", "model": "gpt"}, 404, "runs fake only"),
        ({"prompt": "x", "n": 9}, 400, "n is not between 1 and 8"),
        ({"prompt": ["x", "y"]}, 400, "several prompts"),
    ],
)
def test_what_can_not_be_run_is_refused(tmp_path: Path, body: dict[str, Any], status: int, says: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            for is_streamed in (False, True):
                answer = await ask(session, **body, stream=is_streamed)
                assert (answer["status"], says in answer["error"]["message"]) == (status, True), answer
            assert served.gate.n_steps == 0
            assert (await ask(session, prompt=[1] * 511, max_tokens=5))["status"] == 200  # the longest one that fits

    run(main)


def test_the_model_may_be_called_by_its_name_or_its_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            for name in ("fake", "fake-model", "fake-model.gguf", ""):
                assert (await ask(session, prompt="x", max_tokens=1, model=name))["status"] == 200

    run(main)


def test_a_name_is_used_once_at_a_time_and_running_requests_are_limited(tmp_path: Path) -> None:
    limits = Limits(n_running=5, n_running_per_peer=3)

    async def main() -> None:
        async with serving(tmp_path, limits=limits) as served, served.session() as session:
            served.gate.close()
            body = {"prompt": list(PROMPT), "max_tokens": 5}
            first = asyncio.create_task(ask(session, **body, midfill={"name": "a"}))
            await until(lambda: len(served.parts.running) == 1)
            again = await ask(session, **body, midfill={"name": "a"})
            assert again["status"] == 409 and "another midfill.name" in again["error"]["message"]
            rest = [asyncio.create_task(ask(session, **body)) for _ in range(2)]
            await until(lambda: len(served.parts.running) == 3)
            more = await ask(session, **body)
            assert more["status"] == 429 and more["error"]["message"].startswith("3 requests of yours")
            served.gate.open()
            assert {answer["status"] for answer in await asyncio.gather(first, *rest)} == {200}
            assert (await ask(session, **body, midfill={"name": "a"}))["status"] == 200
            await served.idle()

    run(main)


def test_quiet_streams_are_kept_alive(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, limits=Limits(quiet_s=0.02)) as served, served.session() as session:
            served.gate.close()
            body = {"prompt": list(PROMPT), "max_tokens": 2, "stream": True}
            async with session.post("/v1/completions", json=body) as response:
                assert (await response.content.readline(), await response.content.readline()) == (b": \n", b"\n")
                served.gate.open()
                assert sse.Reader().push(await response.read())[-1] == sse.DONE

    run(main)


def test_several_candidates_come_as_choices_whole_and_streamed(tmp_path: Path) -> None:
    request = GenerationRequest(1, PROMPT, b"fo", 8, n_candidates=3)

    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            body = {k: v for k, v in encode_call(call_for(request)).items() if k != "stream"}
            assert body["n"] == 3
            whole = await ask(session, **body)
            choices, ranking = whole["choices"], whole["midfill"]["ranking"]
            assert [choice["index"] for choice in choices] == [0, 1, 2] and len({choice["text"] for choice in choices}) == 3
            means = [each["mean_logprob"] for each in ranking]
            assert means == sorted(means, reverse=True) and len(means) == 3
            assert [each["candidate"] for each in ranking] == [0, 1, 2]  # by the choices' numbers
            *said, usage, done = await stream(session, **body, stream_options={"include_usage": True})
            assert done == sse.DONE and json.loads(usage)["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
            streamed, ends = dict.fromkeys(range(3), ""), dict.fromkeys(range(3), 0)
            for chunk in map(json.loads, said):
                (choice,) = chunk["choices"]
                streamed[choice["index"]] += choice["text"]
                ends[choice["index"]] += choice["finish_reason"] is not None
            assert streamed[0] == alone(request)[0] and set(ends.values()) == {1}
            events = [decode_completion(data, 1).event for data in said]
            assert [e.finish for e in events if e.finish] == [alone(request)[1]]
            best_first = [(streamed[r.candidate], r.mean_logprob) for r in events[-1].ranking]
            assert best_first == [(c["text"], r["mean_logprob"]) for c, r in zip(choices, ranking, strict=True)]
            await served.idle()

    run(main)


def test_stop_strings_end_each_choice_and_the_request_with_the_last(tmp_path: Path) -> None:
    backend = FakeBackend(VOCAB, n_ctx=4096, n_seq_max=8)
    starts = {VOCAB.encode(word)[0] for word in (b"value", b"total")}
    predict = backend._predict

    def two(tokens: tuple[int, ...]) -> Any:
        logits = predict(tokens) if tokens != PROMPT else predict(tokens) * 0
        for token in starts if tokens == PROMPT else [VOCAB.encode(b" = ")[0] if len(tokens) % 3 else VOCAB.encode(b"==")[0]]:
            logits[token] = 50.0
        return logits

    backend._predict = two  # type: ignore[method-assign]

    async def main() -> None:
        async with serving(tmp_path, backend=backend) as served, served.session() as session:
            served.gate.step_s = 0.003
            body = {"prompt": list(PROMPT), "max_tokens": 300, "temperature": 0, "n": 2, "stop": [" =", "=="]}
            answer = await ask(session, **body)
            assert sorted(choice["text"] for choice in answer["choices"]) == ["total", "value"]
            assert {choice["finish_reason"] for choice in answer["choices"]} == {"stop"} == {answer["midfill"]["finish"]}
            assert answer["usage"]["completion_tokens"] < 300
            await served.idle()

    run(main)


def test_candidates_end_with_their_client(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            served.gate.step_s = 0.01
            body = {"prompt": list(PROMPT), "max_tokens": 400, "stream": True, "n": 4, "midfill": {"heal": _b64(b"fo")}}
            response = await session.post("/v1/completions", json=body)
            await until(lambda: served.gate.n_steps > 2)
            response.close()
            await served.idle()
            assert sum(bool(s.tokens) for s in served.engine.kv.sequences) == 1

    run(main)
