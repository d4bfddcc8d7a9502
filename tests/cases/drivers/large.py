"""large-input. Limits under a second are counts here: bytes copied, looked at and tokenized, leaves whose sums are rebuilt."""

from __future__ import annotations

import functools
import random
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from context.leaf import leaf_size
from context.text import Text
from tests.cases import generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import CALM, Scene, items_of
from tests.cases.scripted import Model
from tests.cases.server_process import ServerProcess
from tests.support.client import Json, span

OTHER = "file:///w/app/other.py"
MOST_COPIED = 256 * 1024  # bytes of one request: some tens of windows, however long the document or the line is
MOST_ENCODED = 64 * 1024


class Work:
    """As a context manager: what is done with texts meanwhile. copied: bytes sliced out or joined. looked_at: bytes walked over
    where they lie. edits: of each the bytes that went into new leaves, the leaves of the new text, and seconds."""

    def __init__(self) -> None:
        self.copied = 0
        self.looked_at = 0
        self.edits: list[tuple[int, int, float]] = []
        notes = {"slice": self._copied, "bytes": self._copied, "pieces": self._walked, "edit": self._edited}
        self._patches = [
            mock.patch.object(Text, name, functools.partialmethod(self._watched, getattr(Text, name), note))
            for name, note in notes.items()
        ]

    def __enter__(self) -> Work:
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()

    @staticmethod
    def _watched(text: Text, call: Any, note: Any, *args: Any) -> Any:
        started = time.perf_counter()
        return note(call(text, *args), started)

    def _copied(self, data: bytes, _started: float) -> bytes:
        self.copied += len(data)
        return data

    def _walked(self, pieces: Iterator[bytes], _started: float) -> Iterator[bytes]:
        for piece in pieces:
            self.looked_at += len(piece)
            yield piece

    def _edited(self, text: Text, started: float) -> Text:
        self.edits.append((text.n_copied, text.n_leaves, time.perf_counter() - started))
        return text


def long_text(case: Case) -> tuple[str, int]:
    """The document and its number of lines, all equally long."""
    found = re.search(r"(\d+) MB / (\d+) million lines", str(case.input["messages"][0]))
    assert found is not None
    n_bytes, n_lines = int(found[1]) * 1_000_000, int(found[2]) * 1_000_000
    width = n_bytes // n_lines - 1
    lines = (f"v{i:07d} = total[{i % 1000:03d}]".ljust(width, "#") for i in range(n_lines - 1))
    return "\n".join(lines) + "\n" + "x" * (width + 1), n_lines


def random_places(text: str, n_lines: int, n: int) -> list[tuple[int, int]]:
    rng = random.Random(7)
    width = len(text) // n_lines
    return [(rng.randrange(n_lines), rng.randrange(width - 1)) for _ in range(n)]


def with_insertions(text: str, n_lines: int, places: list[tuple[int, int]], character: str) -> str:
    """The text after a character was inserted at each place, one after the other."""
    width = len(text) // n_lines
    columns: dict[int, list[int]] = {}
    for line, column in places:
        columns.setdefault(line, []).append(column)
    parts, at = [], 0
    for line in sorted(columns):
        start = line * width
        changed = text[start : start + width]
        for column in columns[line]:
            changed = changed[:column] + character + changed[column:]
        parts += [text[at:start], changed]
        at = start + width
    return "".join([*parts, text[at:]])


def _numbers(case: Case) -> tuple[int, int]:
    """Changes, and the factor of memory."""
    n_changes = re.match(r"(\d+) single-character didChange", str(case.input["messages"][1]))
    factor = re.search(r"rss < (\d+)x text", case.expected["note"])
    assert n_changes is not None and factor is not None
    return int(n_changes[1]), int(factor[1])


@driver("large-input-01")
async def many_lines(case: Case) -> str:
    """p95 < 50 ms is a count: a change copies a few leaves, and there are at most some thousand, of which it makes the sums of
    a branch anew. The memory is that of a server in a process of its own."""
    text, n_lines = long_text(case)
    n_changes, factor = _numbers(case)
    ask = case.input["messages"][-1]
    uri, cursor = ask["params"]["textDocument"]["uri"], ask["params"]["position"]
    places = random_places(text, n_lines, n_changes)
    wanted = with_insertions(text, n_lines, places, "q")
    async with Scene(Model.saying("_new = 1")) as scene:
        n_before = scene.model.vocab.n_encoded_bytes
        with Work() as work:
            scene.client.open(uri, text)
            await scene.client.settle()
            assert not work.edits and work.copied < MOST_COPIED, f"opening copies {work.copied} bytes"
            for line, column in places:
                scene.client.change(uri, {"range": span(line, column, line, column), "text": "q"})
            await scene.client.settle()
            assert len(work.edits) == n_changes, f"{len(work.edits)} changes"
            n_copied, n_leaves = (max(edit[i] for edit in work.edits) for i in (0, 1))
            assert n_copied <= 1 + 4 * leaf_size(len(text)) <= MOST_COPIED, f"{n_copied} bytes copied by one change"
            assert n_leaves <= 5000, f"{n_leaves} leaves"
            assert work.copied + work.looked_at < n_changes * 1024 + MOST_COPIED, "changes look at more than their places"
            assert scene.model.vocab.n_encoded_bytes == n_before, "text was tokenized before anybody asked"
        p95 = statistics.quantiles((edit[2] for edit in work.edits), n=20)[-1]
        assert scene.server_text(uri) == wanted, "the copy is wrong"
        with Work() as work:
            (item,) = items_of(await scene.client.inline(uri, **cursor))
        n_encoded = scene.model.vocab.n_encoded_bytes - n_before
        assert work.copied < MOST_COPIED and work.looked_at < MOST_COPIED, f"{work.copied}, {work.looked_at} bytes"
        assert n_encoded < MOST_ENCODED, f"{n_encoded} bytes tokenized"
        at = sum(map(len, wanted.split("\n", cursor["line"])[:-1])) + cursor["line"] + cursor["character"]
        prompt = scene.prompt
        assert len(prompt.before) > 500 and wanted[:at].endswith(prompt.before), "not the text before the cursor"
        assert len(prompt.after) > 100 and wanted[at:].startswith(prompt.after), "not the text behind the cursor"
        assert item["insertText"].endswith("_new = 1") and item["range"]["start"]["line"] == cursor["line"], f"{item}"
        assert not scene.logs.above(20), f"{scene.logs.above(20)}"
    grown = _memory(text, places, ask, factor)
    return (
        f"a change: {n_copied} bytes copied, {n_leaves} leaves, p95 {p95 * 1000:.2f} ms; "
        f"the request: {work.copied} bytes copied, {n_encoded} tokenized; memory {grown:.1f} times the text"
    )


def _memory(text: str, places: list[tuple[int, int]], ask: Json, factor: int) -> float:
    """How much larger the process becomes, in lengths of the text. Behind the long document, in the same write, somebody asks
    about another one."""
    uri = ask["params"]["textDocument"]["uri"]
    with ServerProcess("scripted", "_new = 1") as server:
        server.initialize(0, options=CALM)
        server.answer(0)
        server.notify("initialized", {})
        server.status("ready")
        server.send(_opened(OTHER, "a = "), _asked(1, OTHER, 0, 4))
        items_of(server.answer(1))
        before = psutil.Process(server.process.pid).memory_info().rss
        server.send(_opened(uri, text), _opened(OTHER, "b = "), _asked(2, OTHER, 0, 4))
        assert items_of(server.answer(2)), "nothing for the document that was opened behind the long one"
        for version, (line, column) in enumerate(places, 2):
            change = {"range": span(line, column, line, column), "text": "q"}
            document = {"uri": uri, "version": version}
            server.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        server.send({**ask, "id": 3})
        assert items_of(server.answer(3)), "nothing for the long document"
        grown = (_peak(server.process.pid) - before) / len(text)
        left = (psutil.Process(server.process.pid).memory_info().rss - before) / len(text)
        assert grown < factor, f"the process grew by {grown:.1f} times the text"
        assert left < 2, f"{left:.1f} times the text is kept"
        assert "Traceback" not in server.errors, server.errors[-600:]
        return grown


def _peak(pid: int) -> int:
    """Most bytes that the process held at any time; what it holds now where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else int(psutil.Process(pid).memory_info().rss)


def _opened(uri: str, text: str) -> Json:
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    return {"method": "textDocument/didOpen", "params": {"textDocument": document}}


def _asked(msg_id: int, uri: str, line: int, character: int) -> Json:
    params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}, "context": {"triggerKind": 2}}
    return {"id": msg_id, "method": "textDocument/inlineCompletion", "params": params}


@driver("large-input-02")
async def one_long_line(case: Case) -> str:
    """Counted: what a request copies and tokenizes, behind the line and inside of it, and that a line ten times as long makes
    no difference but for the walk to the cursor's column."""
    line = case.text.split("\n")[0]
    (says,) = case.input["model"]["outputs"]
    told = []
    for times in (1, 10):
        longer = line * times + case.text[len(line) :]
        async with generic.scene_of(case) as scene:
            uri, cursor = case.input["document"]["uri"], case.input["document"]["cursor"]
            scene.open(longer, uri, case.input["document"]["languageId"])
            text, work, n_encoded = await _one_request(scene, uri, **cursor)
            assert text == longer + says, f"{text[-30:]!r}"
            prompt = scene.prompt
            n_prompt = len(prompt.before) + len(prompt.after)
            assert n_prompt < len(line) / 4, f"{n_prompt} bytes of prompt"
            assert longer.endswith(prompt.before) and len(prompt.before) > 500, "not the end of the line above"
            told.append((work.copied, n_encoded))
            for column in (0, 3, 8, len(line) // 2, len(line) * times - 1, len(line) * times):
                scene.open(longer, uri)  # anew, so that each place gets a prompt of its own
                text, work, n_encoded = await _one_request(scene, uri, 0, column)
                rests = (longer[column:], longer[column:].removeprefix(says[-1]))  # the model's text may end as the rest begins
                assert text in [longer, *(longer[:column] + says + rest for rest in rests)], f"{text[column - 9 :][:40]!r}"
                assert work.copied < MOST_COPIED and n_encoded < MOST_ENCODED, f"{column}: {work.copied}, {n_encoded} bytes"
                assert work.looked_at <= 16 * (column + 4096), f"column {column}: {work.looked_at} bytes walked over"
                prompt = scene.prompt
                assert longer[:column].endswith(prompt.before), f"column {column}: {prompt.before[-20:]!r}"
                assert longer[column:].startswith(prompt.after), f"column {column}: {prompt.after[:20]!r}"
                assert len(prompt.before) + len(prompt.after) < len(line) / 4, f"column {column}: the prompt carries the line"
            assert not scene.logs.above(20), f"{scene.logs.above(20)}"
    (copied, n_encoded), longest = told
    assert copied < MOST_COPIED and n_encoded < MOST_ENCODED, f"{copied}, {n_encoded} bytes"
    assert longest[0] < 2 * copied + 1024 and longest[1] < 2 * n_encoded + 1024, f"a longer line costs more: {told}"
    return f"{copied} bytes copied and {n_encoded} tokenized; {longest[0]} and {longest[1]} with a line ten times as long"


async def _one_request(scene: Scene, uri: str, line: int, character: int) -> tuple[str, Work, int]:
    """The text with what is offered accepted, or as it is; what it cost, and the bytes tokenized."""
    n_before = scene.model.vocab.n_encoded_bytes
    with Work() as work:
        items = await scene.ask(line, character, uri=uri)
    text = scene.texts[uri]
    for item in items:
        edges = [item["range"][edge]["character"] for edge in ("start", "end")]
        assert all(item["range"][edge]["line"] == line for edge in ("start", "end"))
        begin = len("".join(part + "\n" for part in text.split("\n")[:line]))
        text = text[: begin + edges[0]] + item["insertText"] + text[begin + edges[1] :]
    return text, work, scene.model.vocab.n_encoded_bytes - n_before
