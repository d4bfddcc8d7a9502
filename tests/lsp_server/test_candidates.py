"""Several suggestions for who asks by hand: best first, each once, to cycle through; a keystroke has one and pays for one."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from inference.types import GenerationRequest
from lsp_server.types import Completion, Superseded
from tests.lsp_server.test_both_kinds import start
from tests.lsp_server.test_session import VOCAB, Bench, virtual
from tests.support.fake_backend import WORDS

NAMES = [word for name in WORDS[14:26] for word in ("and", name)]
IDS = {piece: i for i, piece in enumerate(VOCAB.pieces)}
Says = dict[str, dict[str, float]]

LINE: Says = {
    "x =": {" total": 9.0, " value": 8.8, " name": 8.2},
    "x = total": {"\n": 9.0},
    "x = total\n": {"\n    ": 9.0},
    "x = value": {"()": 9.0},
    "x = value()": {"\n": 9.0},
    "x = name": {"\n": 9.0},
}


def bench(says: Says, before: str = "x = ", after: str = "\n", **settings: Any) -> Bench:
    """The model says what `says` says behind each text of the cursor's line; elsewhere the end."""
    b = Bench(before, after, reply_deadline_ms=0, **settings)

    def predict(tokens: tuple[int, ...]) -> Any:
        logits = np.full(VOCAB.n_tokens, -20.0, dtype=np.float32)
        logits[VOCAB.eos] = 0.0
        at = max((i for i, t in enumerate(tokens) if t in VOCAB.stop_tokens), default=-1)
        said = VOCAB.text(tokens[at + 1 :]).decode("utf-8", "ignore")
        for piece, logit in says.get(said, {}).items():
            logits[IDS[piece.encode()]] = logit
        return logits

    b.backend._predict = predict  # type: ignore[method-assign]
    return b


def accepted(b: Bench, completion: Completion) -> list[str]:
    return [b.accept(Completion(1, (item,), "")).removesuffix("\n") for item in completion.items]


@virtual
async def test_who_asks_by_hand_gets_several_and_a_keystroke_one() -> None:
    head = "def value(): ...\n"
    b = bench(LINE, head + "x = ")
    assert accepted(b, await b.ask()) == [head + "x = total"]
    assert [r.n_candidates for r in b.client.requests] == [1]
    # the mean counts: one that is less likely to begin with may be surer of what follows
    in_order = [head + "x = value()", head + "x = total", head + "x = name"]
    assert accepted(b, await b.ask(invoked=True)) == in_order
    assert b.client.requests[-1].n_candidates == 3 and b.client.requests[-1].first_line
    n = len(b.client.requests)
    assert accepted(b, await b.ask(invoked=True)) == in_order, "cycling on"
    assert len(b.client.requests) == n


@virtual
async def test_one_that_calls_what_nobody_knows_comes_after_the_others() -> None:
    b = bench(LINE)
    await b.ask()
    b.type("t")
    await asyncio.sleep(1.0)  # until there is a tree
    b.delete(1)
    assert accepted(b, await b.ask(invoked=True)) == ["x = total", "x = name", "x = value()"]
    assert "nobody knows the name value" in b.record["notes"]


@virtual
async def test_any_of_them_is_typed_through() -> None:
    b = bench(LINE)
    await b.ask(invoked=True)
    n = b.client.counters().n_steps
    for key, want in (("v", "x = value()"), ("alue", "x = value()"), ("(", "x = value()")):
        b.type(key)
        assert accepted(b, await b.ask()) == [want]
        assert b.record["source"] == "typed through"
    assert b.client.counters().n_steps == n
    assert len(b.client.requests) == 1


@virtual
async def test_a_block_has_candidates_too_and_the_same_item_is_one() -> None:
    says = {
        "": {"    ": 9.0}, "    ": {"return": 9.0, "for": 8.9, "if": 8.5},
        "    return": {" value": 9.0}, "    return value": {},
        "    for": {" item": 9.0}, "    for item": {"\n    ": 9.0}, "    for item\n    ": {"print": 9.0},
        "    for item\n    print": {}, "    if": {" name": 9.0}, "    if name": {" ": 0.1},
    }  # fmt: skip
    b = bench(says, "def foo():\n    ")
    got = accepted(b, await b.ask(invoked=True))
    assert sorted(got) == sorted(f"def foo():\n    {t}" for t in ("return value", "for item\n    print", "if name"))
    assert not b.client.requests[-1].first_line
    says["    if"] = {"": 0.0}
    says["    "] = {"return": 9.0, " ": 8.5}
    says["     "] = {"\n    ": 9.0}  # nothing but blanks, and what has not been said is no beginning of them
    b = bench(says, "def foo():\n    ")
    assert accepted(b, await b.ask(invoked=True)) == ["def foo():\n    return value"]


@virtual
async def test_a_keystroke_does_not_wait_for_the_candidates_of_an_earlier_request() -> None:
    chain = {"x =": {" total": 9.0, " value": 8.6, " name": 8.2}}
    for word in ("total", "value", "name"):
        said = f"x = {word}"
        for name in NAMES:
            chain[said] = {f" {name}": 9.0}
            said += f" {name}"
    b = bench(chain)
    by_hand = b.start(invoked=True)
    while not any(len(rows) == 3 for rows in b.backend.decoded):
        await asyncio.sleep(0.01)
    b.type("t")
    typed = b.start()
    await asyncio.sleep(0)
    n = len(b.backend.decoded)
    assert accepted(b, await typed) == ["x = total " + " ".join(NAMES)]
    assert all(len(rows) == 1 for rows in b.backend.decoded[n + 1 :]), "only the step under way had candidates in it"
    assert [r.n_candidates for r in b.client.requests] == [3, 1]
    assert b.client.counters().prompt <= len(b.client.requests[0].tokens) + 2, "the prompt was evaluated once"
    await b.client.idle()
    with pytest.raises(Superseded):
        await by_hand


@pytest.mark.parametrize("settings", [{"n_candidates": 1}, {}])
def test_one_is_enough_where_one_is_set_and_in_a_list(settings: dict[str, Any]) -> None:
    @virtual
    async def main() -> None:
        b = bench(LINE, **settings)
        got = await start(b, plain=not settings, invoked=True)
        assert accepted(b, got) == ["x = total"]
        request: GenerationRequest = b.client.requests[-1]
        assert (request.n_candidates, request.first_line) == (1, False)

    main()


@virtual
async def test_where_the_line_is_complete_others_are_offered_or_the_reason_told() -> None:
    says = {"x =": {" value": 9.0}, "x = value": {"\n": 9.0, "()": 8.0}, "x = value()": {"\n": 9.0}}
    b = bench(says, "x = value")
    assert accepted(b, await b.ask(invoked=True)) == ["x = value()"]
    says["x = value"].pop("()")
    b = bench(says, "x = value")
    got = await b.ask(invoked=True)
    assert not got.items and got.reason == "the line is complete"
