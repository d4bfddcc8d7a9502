"""The index in the real server, over the wire: what is announced, asked for, told, and what pauses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lsp_server.index import room as module
from tests.cases.scene import Scene
from tests.cases.scripted import Model
from tests.index.conftest import House, write_all
from tests.support.client import in_loop

WATCHES = {"workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}}, "window": {"workDoneProgress": True}}


@pytest.fixture(autouse=True)
def cache(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(house.cache.parent))
    house.cache = house.cache.parent / "midfill"


def scene(house: House, **options: Any) -> Scene:
    return Scene(Model.saying("x"), {"index": True}, root=house.root.as_uri(), **options)


async def until(holds: Callable[[], Coroutine[Any, Any, object]]) -> None:
    while not await holds():
        await asyncio.sleep(0.02)


@in_loop
async def test_files_that_the_editor_moves_are_found_where_they_are(house: House) -> None:
    """rename-workspace-01"""
    write_all(house.root, {"old.py": "def helper(): ...\n"})
    told = {"didCreate": True, "didRename": True, "didDelete": True}
    async with scene(house, capabilities={"workspace": {"fileOperations": told}}) as it:

        async def paths() -> list[str]:
            return [each.path for each in await it.app.index.definitions_of("helper")]

        operations = it.client.result["capabilities"]["workspace"]["fileOperations"]
        assert operations.keys() == told.keys()
        assert not it.client.of_method("client/registerCapability")
        await until(paths)
        old, new = house.root / "old.py", house.root / "new.py"
        for _ in range(5):
            old.rename(new)
            it.client.notify("workspace/didRenameFiles", {"files": [{"oldUri": old.as_uri(), "newUri": new.as_uri()}]})
            old, new = new, old

        async def is_moved() -> bool:
            return await paths() == [str(old)]

        await until(is_moved)
        assert (await it.app.index.counts())[str(house.root)]["parsed"] == 1


@in_loop
async def test_a_client_that_can_tell_of_changes_is_asked_to(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHOWN_FROM", 1)
    write_all(house.root, {f"f{n}.py": f"def f{n}(): pass\n" for n in range(200)})
    async with scene(house, capabilities=WATCHES) as it:
        asked = await it.client.until(lambda m: m.get("method") == "client/registerCapability")
        (registration,) = asked["params"]["registrations"]
        assert registration["method"] == "workspace/didChangeWatchedFiles"
        it.client.send({"id": asked["id"], "result": None})
        await until(lambda: it.app.index.definitions_of("f199"))
        status = await it.client.until(lambda m: m.get("method") == "midfill/status" and "indexing" in m["params"])
        assert 0 <= status["params"]["indexing"] <= 100 and status["params"]["state"]
        ended = await it.client.until(
            lambda m: m.get("method") == "$/progress" and m["params"]["value"].get("message") == "the workspace is indexed"
        )
        assert ended["params"]["value"]["kind"] == "end"
        noted: list[str] = []
        it.app.index._roots[0].changed = noted.append  # type: ignore[method-assign]
        changes = [{"uri": (house.root / name).as_uri(), "type": 2} for name in ("f1.py", "sub/x.py")]
        it.client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        it.client.notify("textDocument/didSave", {"textDocument": {"uri": (house.root / "saved.py").as_uri()}})
        await it.client.settle()
        assert noted == ["f1.py", "sub/x.py", "saved.py"]


@in_loop
async def test_filling_pauses_while_a_request_is_open(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    async with scene(house) as it:
        await until(lambda: it.app.index.definitions_of("f"))
        requests = it.app.index._roots[0].requests
        assert requests is not None and not requests.is_any_open
        assert it.engine is not None
        seen: list[bool] = []
        it.engine.on_step = lambda _rows: seen.append(requests.is_any_open)  # type: ignore[attr-defined]
        it.open("y = \n")
        await it.ask(0, 4)
        assert seen and all(seen) and not requests.is_any_open


@in_loop
async def test_settings_apply_at_once(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    async with scene(house) as it:
        await until(lambda: it.app.index.definitions_of("f"))
        off = {"settings": {"midfill": {"index": False}}}
        it.client.notify("workspace/didChangeConfiguration", off)
        await it.client.settle()
        await it.app.index.settled()
        assert await it.app.index.definitions_of("f") == ()
        it.client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"index": True}}})
        await it.client.settle()
        await it.app.index.settled()
        assert await it.app.index.definitions_of("f")
        folder = {"uri": house.root.as_uri(), "name": "ws"}
        it.client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": [folder]}})
        await it.client.settle()
        await it.app.index.settled()
        assert await it.app.index.definitions_of("f") == ()
