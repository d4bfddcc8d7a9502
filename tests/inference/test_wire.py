"""The wire's codecs: what goes out comes back, and what can't be meant is refused in one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference import sse
from inference.call import MAX_HEAL, Call, call_for, decode_call, encode_call
from inference.plain import PlainError, from_plain
from inference.serve.stops import Stops
from inference.types import (
    Costs,
    Counters,
    FinishReason,
    GenerationRequest,
    GenerationStats,
    Priority,
    Ranked,
    SamplingParams,
    TokenEvent,
)
from inference.wire import (
    PROTOCOL,
    EngineState,
    Envelope,
    Hello,
    News,
    WireError,
    decode,
    decode_completion,
    decode_hello,
    decode_protocol,
    encode_completion,
    encode_usage,
    read_json,
    settings_digest,
    to_json,
)

finite = st.floats(min_value=0, max_value=1e9)
counts = st.integers(0, 1 << 40)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
samplings = st.builds(
    SamplingParams,
    temperature=st.floats(0, 10), top_p=st.floats(0, 1), min_p=st.floats(0, 1), repeat_penalty=st.floats(0.01, 10),
    repeat_last_n=st.integers(0, 5000), seed=st.integers(0, (1 << 63) - 1),
)  # fmt: skip
requests = st.builds(
    GenerationRequest,
    request_id=st.integers(0, 1 << 40), tokens=st.lists(st.integers(0, 200_000), min_size=1, max_size=30).map(tuple),
    heal=st.binary(max_size=30), n_max=st.integers(0, 5000), sampling=samplings, priority=st.sampled_from(Priority),
    n_candidates=st.integers(1, 8), first_line=st.booleans(), is_private=st.booleans(),
)  # fmt: skip
statistics = st.builds(
    GenerationStats,
    **dict.fromkeys(("n_prompt", "n_reused", "n_evaluated", "n_healing", "n_generated", "n_steps"), counts),
    **dict.fromkeys(("queue_ms", "prefill_ms", "decode_ms"), finite), first_byte_ms=st.none() | finite,
)  # fmt: skip
events = st.builds(
    TokenEvent, request_id=st.integers(0, 9), text=texts, stats=statistics, finish=st.none() | st.sampled_from(FinishReason),
    error=texts, candidate=st.integers(0, 7),
    ranking=st.lists(
        st.builds(Ranked, st.integers(0, 7), st.none() | st.floats(-100, 0), st.sampled_from(FinishReason)), max_size=3
    ).map(tuple),
)  # fmt: skip
counters = st.builds(Counters, **dict.fromkeys([field.name for field in fields(Counters)], counts))
hellos = st.builds(
    Hello, protocol=st.just(PROTOCOL), version=texts, pid=counts, model_name=texts, model_path=texts, model_digest=texts,
    vocab_digest=texts, settings_digest=texts, settings=st.dictionaries(texts, counts | texts | st.booleans()), n_ctx=counts,
    costs=st.none() | st.builds(Costs, finite, finite), counters=counters,
    news=st.builds(News, st.sampled_from(EngineState), st.floats(0, 1), texts), notices=st.lists(texts, max_size=3).map(tuple),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(requests, st.none() | st.floats(0, 1e6), st.floats(0, 60_000))
def test_a_request_comes_back_as_it_went_out(request, deadline_ms, adopt_ms) -> None:
    call = call_for(request, name="a-1", model="m", deadline_ms=deadline_ms, adopt_ms=adopt_ms)
    data = to_json(encode_call(call))
    assert b"\n" not in data and data.isascii()
    back = decode_call(read_json(data))
    assert back == call and back.is_stream
    assert back.request(request.request_id, request.tokens) == request


def test_no_field_of_a_request_is_forgotten() -> None:
    """A field that the core adds has to cross the wire as well."""
    changed = GenerationRequest(
        1, (1,), b"x", 7, SamplingParams(0.5, 0.6, 0.7, 1.1, 9, 5), Priority.PREFETCH, 3, True, True, (4, 5),
        ("0" * 32,), 16,
    )
    assert all(getattr(changed, f.name) != f.default for f in fields(GenerationRequest))
    assert all(getattr(changed.sampling, f.name) != f.default for f in fields(SamplingParams))
    assert len(fields(GenerationRequest)) == 12 and len(fields(SamplingParams)) == 6
    assert decode_call(read_json(to_json(encode_call(call_for(changed))))).request(1, (1,)) == changed


def test_a_text_and_its_options_come_back() -> None:
    call = Call("def é:\n", stops=("\n\n", "x"), with_usage=True, sampling=SamplingParams(seed=3), n_max=4)
    assert decode_call(read_json(to_json(encode_call(call)))) == call


@settings(max_examples=200, deadline=None)
@given(events, st.none() | counters, st.booleans())
def test_an_event_comes_back_as_it_went_out(event, told, with_usage) -> None:
    data = encode_completion(Envelope("a-1", "m", 5), event, told, with_usage=with_usage)
    assert b"\n" not in data and data.isascii()
    chunk = decode_completion(data, event.request_id)
    assert (chunk.event, chunk.counters, chunk.name) == (event, told, "a-1")


def test_what_openai_clients_read() -> None:
    stats = GenerationStats(n_prompt=7, n_reused=5, n_healing=1, n_generated=3)
    want = {
        None: None, FinishReason.STOP: "stop", FinishReason.LENGTH: "length", FinishReason.CONTEXT: "length",
        FinishReason.RESIDENT: "length", FinishReason.DEADLINE: "deadline", FinishReason.CANCELLED: "cancelled",
        FinishReason.ERROR: "error",
    }  # fmt: skip
    assert set(want) == {None, *FinishReason}
    for finish, word in want.items():
        event = TokenEvent(1, "x", stats, finish, "why" if finish is FinishReason.ERROR else "")
        body = json.loads(encode_completion(Envelope("a", "m", 5), event, with_usage=True))
        assert body["object"] == "text_completion" and (body["id"], body["model"], body["created"]) == ("a", "m", 5)
        assert body["choices"] == [{"index": 0, "text": "x", "logprobs": None, "finish_reason": word}]
        assert body["usage"] == {
            "prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 5},
        }  # fmt: skip
        assert body.get("error", {}).get("message") == (event.error or None)
    last = json.loads(encode_usage(Envelope("a", "m", 5), stats))
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 11


@settings(max_examples=100, deadline=None)
@given(hellos)
def test_a_greeting_comes_back_as_it_went_out(hello) -> None:
    assert decode_hello(to_json(hello)) == hello


def test_a_greeting_of_another_protocol_says_so_and_tells_who_it_is() -> None:
    data = to_json({"protocol": PROTOCOL + 1, "version": "9", "pid": 5, "all": "else is different"})
    with pytest.raises(WireError, match=rf"speaks protocol {PROTOCOL + 1}, this midfill {PROTOCOL}"):
        decode_hello(data)
    assert decode_protocol(data) == (PROTOCOL + 1, "9", 5)


NO_GREETING = [b"{}", b"[]", b'{"protocol":"1","version":"1","pid":1}', b'{"protocol":1,"version":"1","pid":1}']


@pytest.mark.parametrize("data", NO_GREETING)
def test_what_is_no_greeting(data: bytes) -> None:
    with pytest.raises(WireError):
        decode_hello(data)


def test_settings_have_one_digest_in_any_order() -> None:
    assert settings_digest({"a": 1, "b": (1, 2)}) == settings_digest({"b": [1, 2], "a": 1})
    assert settings_digest({"a": 1}) != settings_digest({"a": 2}) != settings_digest({"b": 2})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"), (b"{", "not JSON"), (b'{"a":1}x', "not JSON"), (b"{'a':1}", "not JSON"), (b"\xff\xfe", "UTF-8"),
        (b'"\xc3"', "UTF-8"), ('{"a":1}'.encode("utf-16"), "UTF-8"), ('{"a":1}'.encode("utf-16-be"), "not JSON"),
        (b"NaN", "NaN is not a number"), (b'{"a":-Infinity}', "-Infinity is not"), (b"[" * 200_000, "nested too deeply"),
        (b"1" * 5000, "not JSON"), (b"\xef\xbb\xbf{}", "not JSON"),
    ],
)  # fmt: skip
def test_what_is_no_json(data: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        read_json(data)


GOOD = {"prompt": [1, 2], "max_tokens": 3}
BAD = {
    "prompt": [None, 5, {}, True, [1.5], [True], [-1], [1 << 31], ["a", "b"], [["x"]], [[1], [2]], "\ud800", [1, None], 1e999],
    "max_tokens": [-1, 1.5, "5", True, 1 << 70, [], 1e999],
    "temperature": [-0.1, 11, "1", True, 1e999, 1 << 70],
    "top_p": [-1, 2, "x"],
    "min_p": [-0.1, 1.1],
    "seed": [-2, 1.5, 1 << 63, "1", True],
    "stop": [5, [""], [5], ["a"] * 5, "", "x" * 257, {"a": 1}],
    "stream": [1, "true", 0],
    "stream_options": [5, {"include_usage": 1}],
    "model": [5, ["m"]],
    "n": [9, 0, -1, 1.5, True, "1"],
    "best_of": [2],
    "echo": [True],
    "logprobs": [0, 5, True],
    "suffix": ["x"],
    "logit_bias": [{"5": 1}],
    "presence_penalty": [0.5],
    "frequency_penalty": [-1],
    "midfill": [5, [], "x", 0, {"prority": "typing"}, {"Heal": ""}],
    "midfill.heal": [5, "x", "é", "eA", "eA==\n", [1], "A" * (MAX_HEAL * 2)],
    "midfill.priority": ["low", 0, "TYPING", [], True],
    "midfill.deadline_ms": [-1, "5", 1e999, True],
    "midfill.adopt_ms": [-1, 60_001],
    "midfill.first_line": [1, "true"],
    "midfill.private": [1, "true"],
    "midfill.repeat_penalty": [0, 11],
    "midfill.repeat_last_n": [-1, 1.5],
    "midfill.name": ["a b", "x" * 65, 5, "é", "a\n"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_what_can_not_be_meant_is_refused_by_name(name: str, value: object) -> None:
    body = {**GOOD, "midfill": {name.partition(".")[2]: value}} if "." in name else {**GOOD, name: value}
    with pytest.raises(WireError) as caught:
        decode_call(body)
    sentence = str(caught.value)
    assert name.partition(".")[0] in sentence and sentence.endswith(".") and "\n" not in sentence and len(sentence) < 250


@pytest.mark.parametrize("value", [None, 5, [], "x"])
def test_a_body_that_is_no_object(value: object) -> None:
    with pytest.raises(WireError, match="the body"):
        decode_call(value)


def test_what_changes_nothing_is_read_over() -> None:
    harmless = {
        "echo": False, "logprobs": None, "n": 1, "best_of": 1, "suffix": None, "logit_bias": {}, "presence_penalty": 0,
        "frequency_penalty": 0.0, "user": "somebody", "max_tokens": None, "temperature": None, "stop": None, "midfill": None,
        "stream": None, "stream_options": None, "seed": 4,
    }  # fmt: skip
    assert decode_call({"prompt": "x", **harmless}) == decode_call({"prompt": "x", "seed": 4}) == Call(
        "x", sampling=SamplingParams(temperature=1.0, seed=4)
    )  # fmt: skip
    assert decode_call({"prompt": ["x"], "seed": 0}) == decode_call({"prompt": "x", "seed": 0, "stop": []})
    assert decode_call({"prompt": [[1, 2]], "seed": 0}).prompt == (1, 2)


def test_without_a_seed_each_request_has_its_own() -> None:
    assert len({decode_call({"prompt": "x"}).sampling.seed for _ in range(9)}) == 9
    assert decode_call({"prompt": "x", "seed": -1}).sampling.seed >= 0


@pytest.mark.parametrize("change", [{"midfill": 5}, {"choices": []}, {"choices": [{"text": 5}]}, {"id": None}])
def test_what_is_no_event(change: dict[str, object]) -> None:
    body = json.loads(encode_completion(Envelope("a", "m", 5), TokenEvent(1, "x", GenerationStats())))
    with pytest.raises(WireError):
        decode_completion(json.dumps({**body, **change}).encode(), 1)


@dataclass(frozen=True)
class Newer:
    a: int
    by_number: dict[int, float]
    pair: tuple[int, str] = (0, "")
    later: str = "default"


def test_newer_fields_are_read_over_and_missing_ones_have_their_default() -> None:
    assert decode(Newer, b'{"a":1,"by_number":{"-3":2},"unknown":[]}', "it") == Newer(1, {-3: 2.0})
    assert decode(Newer, b'{"a":1,"by_number":{},"pair":[4,"x"]}', "it") == Newer(1, {}, (4, "x"))
    for data in (
        b'{"by_number":{}}', b'{"a":true,"by_number":{}}', b'{"a":1,"by_number":{"x":1}}', b'{"a":1,"by_number":{"1":"x"}}',
        b'{"a":1,"by_number":{"1":1e999}}', b'{"a":1,"by_number":{},"pair":[4]}', b'{"a":1.0,"by_number":{}}', b"[]",
    ):  # fmt: skip
        with pytest.raises(WireError, match="it"):
            decode(Newer, data, "it")
    with pytest.raises(PlainError):
        from_plain(EngineState, "sleeping", "it")


# -- event streams

endings = st.sampled_from([b"\n", b"\r\n", b"\r"])
lines = st.binary(max_size=12).map(lambda b: b.replace(b"\r", b"").replace(b"\n", b""))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(lines, st.integers(0, 2)), max_size=6), endings, st.data())
def test_events_are_found_wherever_the_stream_is_cut(said, end, data) -> None:
    stream = b""
    for payload, n_comments in said:
        stream += b": \n\n".replace(b"\n", end) * n_comments + sse.frame(payload).replace(b"\n", end)
    stream += sse.comment()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = sse.Reader()
    found = []
    for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.push(stream[a:b])
    assert found == [payload for payload, _ in said]


def test_events_one_byte_at_a_time() -> None:
    stream = b"event: x\r\ndata: a\r\ndata: b\r\nid: 5\r\n\r\n:\n\ndata:c\n\ndata\n\n\n\n"
    reader = sse.Reader()
    assert [event for i in range(len(stream)) for event in reader.push(stream[i : i + 1])] == [b"a\nb", b"c", b""]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 60, b"x" * 60, b"data: x\n" * 60])
def test_an_event_without_end_is_refused(piece: bytes) -> None:
    reader = sse.Reader(limit=50)
    with pytest.raises(sse.TooLong):
        for _ in range(3):
            reader.push(piece)
    assert sse.Reader(limit=50).push(b"data: x\n\n" * 60) == [b"x"] * 60


# -- stop strings


def stopped(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """By hand: the text up to the stop string that is complete first."""
    for end in range(1, len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            return text[: end - max(map(len, hits))], True
    return text, False


@settings(max_examples=400, deadline=None)
@given(st.text("abc", max_size=14), st.lists(st.text("abc", min_size=1, max_size=4), max_size=4), st.data())
def test_stop_strings_cut_the_same_text_however_it_arrives(text, stops, data) -> None:
    want, is_hit = stopped(text, tuple(stops))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    reader = Stops(tuple(stops))
    said = ""
    for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True):
        said += reader.push(text[a:b])
        assert want.startswith(said), "something was said that has to be taken back"
        assert reader.is_hit or b - len(said) < max(map(len, stops), default=1), "more is held back than may begin a stop"
    assert (said + reader.rest(), reader.is_hit) == (want, is_hit)


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    reader = Stops(("END",))
    assert reader.push("abE") == "ab" and reader.push("Nx") == "ENx" and reader.push("xx") == "xx"
    assert Stops(("abcd", "c")).push("xabcd") == Stops(("c", "abcd")).push("xab") + "ab" == "xab"
    assert reader.push("EN") == "" and reader.push("D after") == "" and reader.push("more") == "" and reader.is_hit
