"""What follows a suggestion is there when it is taken. Requests are counted, on the strict fake and in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

from context.text import Text
from context.types import DocumentSnapshot
from inference.types import Priority
from lsp_server.answers.enough import Wants
from lsp_server.answers.generation import Said
from lsp_server.warm.allowance import MINUTE_S
from lsp_server.warm.prefetch import _is_offered
from tests.lsp_server.test_results import Typist
from tests.lsp_server.test_session import LINES, VOCAB, virtual


class Reader(Typist):
    """Somebody who looks at what is shown. says: by the end of the text before the cursor, what the model says there."""

    def __init__(self, before: str, says: dict[str, str], after: str = "\n", **more: Any) -> None:
        super().__init__(before, after, **{"prefetch": True, "background": "on", **more})

        def say(tokens: tuple[int, ...]) -> int | None:
            first, last, middle = (tokens.index(VOCAB.control[f"<|fim_{part}|>"]) for part in ("prefix", "suffix", "middle"))
            text = (VOCAB.text(tokens[first + 1 : last]) + VOCAB.text(tokens[middle + 1 :])).decode()
            on = [
                (len(end) + n, said[n:])
                for end, said in says.items()
                for n in range(len(said) + 1)
                if text.endswith(end + said[:n])
            ]
            rest = max(on, default=(0, ""))[1]
            return VOCAB.encode(rest.encode())[0] if rest else VOCAB.eos

        self.backend.script_always = say
        self.client.on_submit = lambda request: None

    @property
    def n_prefetched(self) -> int:
        return sum(r.priority is Priority.PREFETCH and r.n_max > 0 for r in self.client.requests)

    async def look(self, seconds: float = 0.3) -> None:
        await asyncio.sleep(seconds)
        await self.client.idle()


SAYS = {"    x =": " read(item)", "x = read(item)": "", "\n    ": "return x"}


@virtual
async def test_the_line_behind_enter_is_there_when_the_shown_one_is_taken() -> None:
    b = Reader("def foo(item):\n    x =", SAYS)
    shown = await b.asks()
    await b.look()
    assert b.n_prefetched >= 1
    b.take(shown)
    await b.known(None)
    assert "the model" in b.record["reason"] or "complete" in b.record["reason"]
    b.type("\n    ")
    await b.known("return x")
    assert b.record["source"] == "prefetched"


@virtual
async def test_that_nothing_follows_is_known_as_well() -> None:
    b = Reader("def foo(item):\n    x =", {**SAYS, "\n    ": "return y\n"}, after="\n    return y\n")
    shown = await b.asks()
    await b.look()
    b.take(shown)
    await b.known(None)
    b.type("\n    ")
    await b.known(None)
    assert "on the lines below already" in b.record["reason"]


@virtual
async def test_what_follows_is_asked_again_of_the_full_prompt_when_that_is_resident() -> None:
    """What a stopgap says does not count any more then."""
    b = Reader(LINES + "def foo(item):\n    x =", SAYS, cold_budget_ms=800)
    shown = await b.asks()
    session = b.completer._session("file:///a.py")
    assert session._plan is not None and session._plan.limits != b.completer._desk.planner.full  # type: ignore[union-attr]
    await b.look(3.0)
    assert session.ahead.plan is not None
    b.take(shown)
    await b.known(None)
    b.type("\n    ")
    await b.known("return x")
    assert session._generation is not None and session._generation.plan.limits == session.ahead.plan.limits


def test_what_only_stands_there_already_does_not_follow() -> None:
    """Then the line behind Enter is prefetched as well."""
    document = "function f(a) {\n  g(a);$0\n}\n"
    cursor = document.index("$0")
    snapshot = DocumentSnapshot("file:///a.js", 1, "javascript", Text.of(document.replace("$0", "")))
    for rest, is_offered in (("\n}\n", False), ("\n  h(a);\n}\n", True), ("", False)):
        said = Said(0, rest, True, is_line=False)
        generation: Any = SimpleNamespace(plan=SimpleNamespace(anchor=0), remainder=lambda typed, said=said: said)
        assert _is_offered(generation, Wants(snapshot, cursor, False, 1, False), None) is is_offered, rest


@virtual
async def test_nothing_is_prefetched_that_is_known_or_not_looked_at_or_not_allowed() -> None:
    b = Reader("def foo(item):\n    x =", SAYS)
    first = b.start()
    await asyncio.sleep(0.1)
    b.type(" ")
    b.start()
    await asyncio.gather(first, return_exceptions=True)
    b.type("9")
    await b.look()
    assert b.n_prefetched == 0, "a key that disagrees came within a moment"
    for settings in ({"prefetch": False}, {"background": "off"}, {"typed_through": False}, {"result_cache_bytes": 0}):
        b = Reader("def foo(item):\n    x =", SAYS, **settings)
        await b.ask()
        await b.look()
        assert b.n_prefetched == 0, settings


@virtual
async def test_it_ends_with_the_first_key_that_disagrees_and_goes_on_with_one_that_agrees() -> None:
    for key, goes_on in ((" re", True), (" X", False)):
        b = Reader("def foo(item):\n    x =", {**SAYS, "x = read(item)": "\n    y = x" + " + 1" * 60}, max_tokens=200)
        await b.asks()
        while not b.n_prefetched:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        b.type(key)
        await asyncio.sleep(0.2)
        running = [run for run in b.client.engine._runs if run.priority is Priority.PREFETCH and run.request.n_max]
        assert bool(running) is goes_on, key


@virtual
async def test_its_tokens_are_the_backgrounds() -> None:
    b = Reader("def foo(item):\n    x =", SAYS, prefix_tokens=64, suffix_tokens=16, typed_tokens=16)
    ledger = b.completer._allowance.ledger
    n_full = b.completer._desk.planner.n_full  # type: ignore[union-attr]
    ledger.end(99, b.now, n_full)  # the background had its share
    await b.asks()
    await b.look()
    assert b.n_prefetched == 0 and "share of this minute" in b.completer._session("file:///a.py").prefetch.note
    await asyncio.sleep(MINUTE_S)
    b.type(" r")
    await b.ask()
    await b.look()
    left = ledger.left(b.now, n_full)
    assert b.n_prefetched == 0 or left < n_full


@virtual
async def test_most_suggestions_after_an_accepted_one_come_from_it() -> None:
    lines = ["total = read(item)", "value = print(total)", "self.name = value", "foo(bar)", "item[0] = data", "str(total.name)"]
    says = {before: f"\n    {behind}" for before, behind in itertools.pairwise(lines)}
    b = Reader("def foo(item):\n    ", {"def foo(item):\n": f"    {lines[0]}", **says}, typed_tokens=2000)
    shown = await b.asks()
    n_prefetched = n_all = 0
    for _ in lines[1:]:
        await b.look()
        b.take(shown)
        await b.ask()
        b.type("\n    ")
        shown = await b.ask()
        await b.client.idle()
        n_all += 1
        n_prefetched += b.record["source"] == "prefetched"
        assert shown.items
    assert n_prefetched >= 0.8 * n_all, f"{n_prefetched} of {n_all}"
