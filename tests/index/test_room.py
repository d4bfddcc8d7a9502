"""The index as the server has it: real processes, real folders."""

from __future__ import annotations

import asyncio
import functools
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from context.symbols import Import
from lsp_server.config import ServerConfig
from lsp_server.index import room as module
from lsp_server.index.place import place_of
from lsp_server.index.reader import Reader
from lsp_server.index.room import IndexRoom
from lsp_server.uris import document_id
from tests.index.conftest import House, write_all
from tests.index.test_worker import HANG_S


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), HANG_S))

    return run


class Open:
    """An IndexRoom in use. roots: as the editor spells them."""

    def __init__(self, house: House, *roots: Path, **settings: Any) -> None:
        self.house = house
        self.roots = [str(root) for root in roots or (house.root,)]
        self.progress: list[int | None] = []
        self.troubles: list[str] = []
        self.room = IndexRoom(lambda: house.cache, "test", self.progress.append, self.troubles.append)
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        self.room.configure(ServerConfig(**settings), self.roots)

    async def __aenter__(self) -> Open:
        self.room.start()
        await self.room.settled()
        return self

    async def __aexit__(self, *_: object) -> None:
        roots = self.room._roots
        await self.room.aclose()
        for root in roots:
            await asyncio.to_thread(root.join)

    async def until(self, holds: Callable[[], Coroutine[Any, Any, object]]) -> None:
        while not await holds():  # the disk tells nobody
            await asyncio.sleep(0.02)

    async def defined(self, name: str) -> list[str]:
        return [each.path for each in await self.room.definitions_of(name)]


def test_a_definition_changed_on_disk_is_found_by_its_new_form(house: House) -> None:
    @in_loop
    async def run() -> None:
        write_all(house.root, {"a.py": "def old(): pass\n", "d/b.py": "from a import old\n"})
        async with Open(house) as it:
            await it.until(lambda: it.defined("old"))
            assert it.room._roots[0].worker_pid
            (house.root / ".a.py.tmp").write_text("def new(x): pass\n")  # file-watching-02
            (house.root / ".a.py.tmp").replace(house.root / "a.py")
            await it.until(lambda: it.defined("new"))
            assert await it.defined("old") == []
            (defined,) = await it.room.definitions_of("new")
            assert (defined.definition.signature, defined.path) == ("def new(x):", f"{house.root}/a.py")
            doc = document_id(f"file://{house.root}/d/b.py")
            row = await it.room.symbols_in(doc)
            assert row is not None and [each.module for each in row.imports] == ["a"]
            assert await it.room.resolve(doc, "python", row.imports[0]) == (f"{house.root}/a.py",)
            assert await it.room.files_named("b.py") == await it.room.files_named("b") == (f"{house.root}/d/b.py",)
            assert await it.room.files_named("b.ts") == ()
            shutil.rmtree(house.root / "d")

            async def is_gone() -> bool:
                return await it.room.symbols_in(doc) is None

            await it.until(is_gone)
            assert it.troubles == []

    run()


def test_a_checkout_of_thousands_of_files_ends_right(house: House) -> None:
    """More than are passed on one by one (the number is lowered, so that the test is short)."""

    @in_loop
    async def run() -> None:
        write_all(house.root, {f"d{n % 7}/f{n}.py": f"def before{n}(): pass\n" for n in range(120)})
        async with Open(house) as it:
            it.room._roots[0]._keeper.changes._most = 40
            await it.until(lambda: it.defined("before119"))
            await it.until(lambda: drained(it))
            write_all(house.root, {f"d{n % 7}/f{n}.py": f"def after{n}(): pass\n" for n in range(0, 120, 2)})
            write_all(house.root, {f"e{n % 7}/g{n}.py": f"def fresh{n}(): pass\n" for n in range(60)})
            shutil.rmtree(house.root / "d3")
            wanted = {f"{path.relative_to(house.root)}" for path in house.root.rglob("*.py")}

            async def is_right() -> bool:
                counts = (await it.room.counts())[str(house.root)]
                return counts == {"parsed": len(wanted), "skipped": 0, "failed": 0, "pending": 0}

            await it.until(is_right)
            assert await it.defined("after0") and await it.defined("fresh59") and not await it.defined("before0")
            await it.until(is_right)
        assert house.known() == wanted

    run()


async def drained(it: Open) -> bool:
    counts = await it.room.counts()
    return all(not told["pending"] for told in counts.values())


def test_after_a_restart_it_is_of_use_before_anything_has_run(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})
    house.fill()

    @in_loop
    async def run() -> None:
        house.root.joinpath("a.py").write_text("def g(): pass\n")  # while nobody watched
        async with Open(house) as it:
            assert await it.defined("f")
            await it.until(lambda: it.defined("g"))

    run()


def test_what_the_editor_tells_needs_no_watches(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf:
        def sync(self, folders: object) -> list[str]:
            return []

        def close(self) -> None:
            pass

    monkeypatch.setattr("lsp_server.index.root.Root.__init__.__defaults__", (lambda *_: Deaf(),))

    @in_loop
    async def run() -> None:
        write_all(house.root, {"a.py": "def f(): pass\n"})
        async with Open(house) as it:
            await it.until(lambda: it.defined("f"))
            (house.root / "a.py").rename(house.root / "b c.py")
            for name in ("a.py", "b%20c.py"):
                it.room.changed(document_id(f"file://{house.root}/{name}"))

            async def is_moved() -> bool:
                return await it.defined("f") == [f"{house.root}/b c.py"]

            await it.until(is_moved)

    run()


def test_private_by_the_settings_of_this_server_is_in_no_answer_and_soon_nowhere(house: House) -> None:
    write_all(house.root, {"a.py": "def zz_mine(): pass\n", "b.py": "zz_mine()\n"})
    house.fill()

    @in_loop
    async def run() -> None:
        async with Open(house, exclude=("a.py",)) as it:
            assert await it.defined("zz_mine") == []
            assert await it.room.symbols_in(f"{house.root}/a.py") is None
            assert await it.room.files_named("a.py") == ()
            await it.until(lambda: compared(it))
            it.configure(exclude=("a.py", "b.py"))
            await it.room.settled()
            await it.until(lambda: compared(it))
        assert b"zz_mine" not in house.bytes()

    async def compared(it: Open) -> bool:
        (root,) = it.room._roots
        return root.reader.rules() == root.job.rules and await drained(it)

    run()


def test_several_roots_one_in_the_other_and_one_by_a_link(house: House) -> None:
    other = house.root.parent / "other"
    write_all(house.root, {"a.py": "def f(): pass\n", "sub/b.py": "def g(): pass\n"})
    write_all(other, {"c.py": "def f(): pass\n"})
    link = house.root.parent / "link"
    link.symlink_to(other, target_is_directory=True)

    @in_loop
    async def run() -> None:
        async with Open(house, house.root, house.root / "sub", link, house.root.parent / "nothing") as it:

            async def all_there() -> bool:
                return sorted(await it.defined("f")) == [f"{link}/c.py", f"{house.root}/a.py"] and bool(await it.defined("g"))

            await it.until(all_there)
            assert await it.defined("g") == [f"{house.root}/sub/b.py"]
            assert await it.room.symbols_in(f"file://{link}/c.py") is not None
            assert len(it.room._roots) == 3
            before = {root.job.root: root for root in it.room._roots}
            it.roots = [str(house.root)]
            it.configure()
            await it.room.settled()
            (left,) = it.room._roots
            assert left is before[str(house.root)], "what stays is not begun anew"
            assert await it.defined("f") == [f"{house.root}/a.py"]
            it.configure(index=False)
            await it.room.settled()
            assert it.room._roots == () and await it.defined("f") == []

    run()


def test_documents_that_are_no_files_of_this_disk(house: House) -> None:
    """uri-identity: untitled, a notebook's cell, on another machine."""
    write_all(house.root, {"a.py": "def f(): pass\n", "n.ipynb": "{}"})
    house.fill()

    @in_loop
    async def run() -> None:
        async with Open(house) as it:
            one = Import("a", "f", "", 0, 0, 1)
            noted: list[str] = []
            it.room._roots[0].changed = noted.append  # type: ignore[method-assign]
            for uri in (
                "untitled:Untitled-1", f"untitled:{house.root}/a.py", f"vscode-notebook-cell:{house.root}/a.py#W0",
                f"vscode-remote://ssh/{house.root}/a.py", f"git:{house.root}/a.py?HEAD", "", "file:///",
            ):  # fmt: skip
                doc = document_id(uri)
                assert await it.room.symbols_in(doc) is None
                assert await it.room.resolve(doc, "python", one) == ()
                it.room.changed(doc)
            assert noted == []
            it.room.changed(document_id(f"file://{house.root}/%61.py"))
            assert noted == ["a.py"]
            assert await it.room.symbols_in(document_id(f"file://{house.root}/a.py".replace("a.py", "%61.py")))

    run()


def test_a_home_directory_is_too_wide(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(house.root / "me"))

    @in_loop
    async def run() -> None:
        (house.root / "me" / "code").mkdir(parents=True)
        async with Open(house, house.root, house.root / "me", house.root / "me" / "code", Path("/")) as it:
            assert [root.job.root for root in it.room._roots] == [f"{house.root}/me/code"]

    run()


def test_a_cache_directory_that_others_can_write_to_is_told_once(house: House) -> None:
    directory = place_of(house.cache, str(house.root)).directory
    directory.mkdir(parents=True)
    directory.chmod(0o777)

    @in_loop
    async def run() -> None:
        async with Open(house) as it:
            it.configure(max_tokens=5)
            await it.room.settled()
            await asyncio.sleep(0)
            assert len(it.troubles) == 1 and "chmod 700" in it.troubles[0]
            assert await it.defined("f") == []

    run()


def test_two_windows_have_one_store_and_one_process(house: House) -> None:
    write_all(house.root, {"a.py": "def f(): pass\n"})

    @in_loop
    async def run() -> None:
        async with Open(house) as one, Open(house) as other:
            await one.until(lambda: other.defined("f"))
            pids = {it.room._roots[0].worker_pid for it in (one, other)} - {None}
            assert len(pids) == 1
            (house.root / "a.py").write_text("def g(): pass\n")
            await one.until(lambda: other.defined("g"))
            assert await one.defined("g")

    run()


def test_progress_is_shown_when_there_is_something_to_wait_for(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHOWN_FROM", 1)
    write_all(house.root, {f"f{n}.py": f"def f{n}(): pass\n" for n in range(300)})

    @in_loop
    async def run() -> None:
        async with Open(house) as it:
            await it.until(lambda: it.defined("f299"))
            await it.until(lambda: ended(it))
            shown = [percent for percent in it.progress if percent is not None]
            assert shown and all(0 <= percent <= 100 for percent in shown)

    async def ended(it: Open) -> bool:
        return bool(it.progress) and it.progress[-1] is None

    run()


def test_a_request_that_is_open_is_seen_by_the_process(house: House) -> None:
    from lsp_server.index.quiet import HOLD_S, OpenRequests

    house.fill()
    clock = [100.0]
    mine, other, theirs = (OpenRequests(house.place.open_requests, lambda: clock[0], n) for n in (1, 2, 3))
    assert not theirs.is_any_open
    mine.hold()
    other.hold()
    assert theirs.is_any_open
    mine.release()
    assert theirs.is_any_open
    clock[0] += HOLD_S + 0.1
    assert not theirs.is_any_open, "one that has died holds nobody up"
    other.hold()
    other.close()
    assert not theirs.is_any_open
    clock[0] -= 50  # a time that is nobody's
    mine.hold()
    clock[0] -= 50
    assert not theirs.is_any_open
    Reader(house.place, str(house.root)).close()
