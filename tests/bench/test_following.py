"""What is counted of typing through and of taking, on the strict fake: nothing where the product keeps what it has, and what it
asks where it does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bench import following
from bench.following import Editor, Seen, measure, report, type_through
from bench.places import Place
from inference.types import Costs
from tests.bench.fake_heart import VOCAB
from tests.support.fake_backend import FakeBackend
from tests.support.virtual import SteppedClient

LINES = "def foo(item):\n    x = read(item)\n    return x\n"
PLACE = Place("python/mid/0", "mid", "python", "r", "r/a.py", "def foo(item):\n", "    x =", "", "\n", " read(item)")


def client() -> SteppedClient:
    """It says what stands behind the cursor in LINES."""
    made = SteppedClient(FakeBackend(VOCAB, n_ctx=8192, n_batch=64), n_ctx=2048, costs=Costs(0.0, 0.0))

    def say(tokens: tuple[int, ...]) -> int:
        first, last, middle = (tokens.index(VOCAB.control[f"<|fim_{part}|>"]) for part in ("prefix", "suffix", "middle"))
        text = (VOCAB.text(tokens[first + 1 : last]) + VOCAB.text(tokens[middle + 1 :])).decode()
        before = text[text.index("def") :]
        rest = LINES[len(before) :] if LINES.startswith(before) else ""
        return VOCAB.encode(rest.encode())[0] if rest else VOCAB.eos

    made.backend.script_always = say
    return made


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "QUIET_S", 0.02)
    monkeypatch.setattr(following, "KEY_S", 0.001)


def measured() -> Seen:
    async def main() -> Seen:
        return await measure(client(), [PLACE])  # type: ignore[arg-type]

    return asyncio.run(main())


def test_typed_through_and_taken_nothing_is_asked() -> None:
    seen = measured()
    assert (seen.n_shown, seen.n_calls, len(seen.answer_ms)) == (1, 0, len(" read(item)") - 1)
    assert (seen.n_accepts, seen.n_prefetched, seen.n_ended) == (1, 1, 0)
    assert seen.misses == []
    assert report(seen, 1)["share"] == 1.0


def test_without_prefetch_the_model_is_asked_after_taking(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = following.ServerConfig
    monkeypatch.setattr(following, "ServerConfig", lambda: replace(usual(), prefetch=False))
    seen = measured()
    assert (seen.n_calls, seen.n_accepts, seen.n_prefetched) == (0, 1, 0)
    assert len(seen.misses) == 1 and seen.misses[0].startswith("accepted")
    assert report(seen, 1)["share"] == 0.0


class Restless(Editor):
    """Each key changes something above as well, so that what was shown is of another text."""

    def edit(self, start: int, end: int, new: bytes) -> None:
        super().edit(start, end, new)
        cursor = self.cursor
        super().edit(0, 0, b"#\n")
        self.cursor = cursor + 2


def test_keys_that_ask_are_counted() -> None:
    async def main() -> Any:
        seen = Seen()
        await type_through(Restless(client(), PLACE), seen)  # type: ignore[arg-type]
        return seen

    seen = asyncio.run(main())
    assert seen.n_calls == len(seen.answer_ms) == len(seen.misses) > 0
