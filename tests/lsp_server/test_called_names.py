"""A name that the index knows is no guess. Asked while the model speaks, and never waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from context.symbol_types import Import
from lsp_server.index.rows import Defined, FileRow, UsedIn
from lsp_server.plans.called_names import REFRESH_S, CalledNames
from tests.lsp_server.test_session import Bench, virtual

SCRIPT = "read(mystery(item)) + other(1)\n"


class Names:
    """An index that knows names, and takes its time."""

    def __init__(self, *known: str, takes_s: float = 0.002) -> None:
        self.known = set(known)
        self.takes_s = takes_s
        self.asked: list[str] = []
        self.fails = False

    def covers(self, doc_id: str) -> bool:
        return doc_id.endswith("a.py")

    async def definitions_of(self, name: str, most: int = 200) -> tuple[Defined, ...]:
        self.asked.append(name)
        await asyncio.sleep(self.takes_s)
        if self.fails:
            raise RuntimeError("it is closed")
        found: Any = (name,) if name in self.known else ()
        return found

    async def uses_of(self, name: str, most: int = 200) -> tuple[UsedIn, ...]:
        return ()

    async def symbols_in(self, doc_id: str) -> FileRow | None:
        return None

    async def resolve(self, doc_id: str, language: str, one: Import) -> tuple[str, ...]:
        return ()


async def notes(index: Names | None, script: str = SCRIPT) -> tuple[Bench, list[str]]:
    """What is told of the names that a suggestion calls."""
    b = Bench("def read(item):\n    pass\n\n\nx = ", script=script, reply_deadline_ms=0, references=False, index_of_names=index)
    b.completer.trees.of(b.snapshot)
    await asyncio.sleep(0.2)
    assert (await b.ask()).items
    return b, [note for note in b.record["notes"] if "nobody knows" in note]


@virtual
async def test_a_name_that_the_index_has_is_known() -> None:
    index = Names("mystery")
    _, told = await notes(index)
    assert told == ["nobody knows the name other"]
    assert sorted(index.asked) == ["mystery", "other", "read"], "each once, however many pieces the text came in"
    _, told = await notes(None)
    assert told == ["nobody knows the name mystery", "nobody knows the name other"]


@virtual
async def test_no_request_waits_for_the_index() -> None:
    times = []
    for index in (None, Names(takes_s=500.0)):
        b = Bench("x = ", script=SCRIPT, reply_deadline_ms=0, references=False, index_of_names=index)
        b.completer.trees.of(b.snapshot)
        await asyncio.sleep(0.2)
        began = b.now
        await b.ask()
        times.append(b.now - began)
        assert not [note for note in b.record["notes"] if "nobody" in note] or index is None, "what nobody has denied is known"
    assert times[0] == pytest.approx(times[1], abs=1e-6)


@virtual
async def test_answers_are_kept_for_a_while_and_trouble_costs_nothing() -> None:
    index = Names("a")
    names = CalledNames(index, asyncio.get_running_loop().time)

    async def hear(text: str, doc_id: str = "file:///a.py") -> None:
        names.heard(doc_id, text)
        await asyncio.sleep(0.1)

    await hear("x.c(a(b(1")
    await hear("a(b(2")
    assert sorted(index.asked) == ["a", "b"], "c is a member"
    known = names.defined("file:///a.py")
    assert (known("a"), known("b"), known("c")) == (True, False, True)
    assert not names.defined("file:///elsewhere.txt")("a")
    await hear("q(", "file:///elsewhere.txt")
    index.known = {"b"}
    await asyncio.sleep(REFRESH_S)
    names.heard("file:///a.py", "a(b(")
    assert known("a"), "the old answer, until there is a new one"
    await asyncio.sleep(0.1)
    assert (known("a"), known("b")) == (False, True)
    index.fails = True
    await asyncio.sleep(REFRESH_S + 1)
    await hear("a(n(")
    assert (known("a"), known("n")) == (False, True) and "q" not in index.asked
