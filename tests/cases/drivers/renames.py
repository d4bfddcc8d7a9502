"""rename-workspace."""

from __future__ import annotations

import re
import tracemalloc
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cases import generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene, items_of
from tests.cases.scripted import Model
from tests.cases.workspaces import cache_of, paths_of, until, workspace
from tests.support.client import Json

_MOST_GROWTH = 1 << 20  # of what Python has allocated, for all rounds after the first tenth


@driver("rename-workspace-01")
async def nothing_of_the_old_name(case: Case) -> str:
    """The case's messages, on real files; then as often as it says, each time to a name that was never there."""
    opened, _renamed, _closed, opened_again = case.input["messages"]
    old, new = (message["params"]["textDocument"]["uri"].rpartition("/")[2] for message in (opened, opened_again))
    text = opened["params"]["textDocument"]["text"]
    name = re.search(r"def (\w+)", text)[1]  # type: ignore[index]
    n_rounds = int(re.search(r"repeat (\d+) times", case.expected["note"])[1])  # type: ignore[index]
    async with workspace({old: text}, Model.saying("x")) as (scene, root):
        await until(lambda: paths_of(scene, name))
        names = [old, new, *(f"name{n}.py" for n in range(n_rounds))]
        scene.open(text, (root / old).as_uri())
        grown = 0
        tracemalloc.start()
        try:
            for n, (before, after) in enumerate(pairwise(names)):
                one, other = root / before, root / after
                one.rename(other)
                move = {"oldUri": one.as_uri(), "newUri": other.as_uri()}
                scene.client.notify("workspace/didRenameFiles", {"files": [move]})
                scene.client.close(one.as_uri())
                scene.texts.pop(one.as_uri())
                scene.open(text, other.as_uri())
                if n % 100 == 0:
                    await scene.ask(0, 0, uri=other.as_uri(), invoked=True)
                if n == n_rounds // 10:
                    await until(partial(_is_all, scene, name, other))
                    grown = tracemalloc.get_traced_memory()[0]
            last = root / names[-1]
            await until(partial(_is_all, scene, name, last))  # what still waited to be looked at does not count as kept
            grown = tracemalloc.get_traced_memory()[0] - grown
        finally:
            tracemalloc.stop()
        assert await scene.app.index.symbols_in((root / new).as_uri()) is None
        assert len(scene.app.store) == 1 and scene.server_text(last.as_uri()) == text
        assert set(scene.app.completer._sessions) <= {last.as_uri()}, "sessions of old names"
        messages = _size_of(scene)
        assert grown - messages < _MOST_GROWTH, f"{grown - messages} bytes more"
        assert cache_of(root).is_dir()
    return f"{n_rounds} names later only the last is known; {max(0, grown - messages) // 1024} KiB more"


async def _is_all(scene: Scene, name: str, path: Path) -> bool:
    """The index knows this one file, and has nothing left to do."""
    await scene.client.settle()
    (counts,) = (await scene.app.index.counts()).values()
    return counts["parsed"] == 1 and counts["pending"] == 0 and await paths_of(scene, name) == [str(path)]


def _size_of(scene: Scene) -> int:
    """What this harness itself keeps: every message that came."""
    return sum(len(repr(message)) * 2 for message in scene.client.messages)


@driver("rename-workspace-02")
async def another_language(case: Case) -> str:
    """The same name again in another language: nothing of the first one is used."""
    assert case.expected["response"] == "no error"
    opened, _, again, ask = case.input["messages"]
    first, second = (message["params"]["textDocument"]["text"] for message in (opened, again))
    scene = Scene(Model.saying("y"))
    async with scene:
        played = await generic.play(scene, case)
        answer: Json = played.last.answer
        items_of(answer)
        assert "error" not in answer
        prompt = scene.prompt
        shown: Any = prompt.before + prompt.after
        assert second.strip()[:4] in shown and first not in shown.replace(second, ""), shown
        uri = ask["params"]["textDocument"]["uri"]
        document = scene.app.store.find(uri)
        assert document is not None and document.snapshot.language == again["params"]["textDocument"]["languageId"]
    files = {"a.h": "int plain(void);\n"}
    async with workspace(files) as (scene, root):  # by its content alone: the same name in another language
        await until(lambda: paths_of(scene, "plain"))
        (root / "a.h").write_text("namespace n { class Fresh { int plain(); }; }\n")
        await until(lambda: paths_of(scene, "Fresh"))
        await until(lambda: scene.app.index.symbols_in(str(root / "a.h")))
        row = await scene.app.index.symbols_in(str(root / "a.h"))
        assert row is not None and row.language == "cpp", row
    return f"{document.snapshot.language} after {opened['params']['textDocument']['languageId']}"
