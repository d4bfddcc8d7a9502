"""file-watching."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
from watchdog.observers.inotify_c import InotifyFD

from lsp_server.index import changes
from lsp_server.index.watching import SYSCTL
from tests.cases.case import HANG_S, Case
from tests.cases.drivers.registry import driver
from tests.cases.scripted import Model
from tests.cases.workspaces import is_equal_to_disk, paths_of, until, workspace, write

_MB = 1 << 20
_LOWERED = """
import asyncio, json, sys
from lsp_server.config import ServerConfig
from lsp_server.index.room import IndexRoom
from functools import partial
from pathlib import Path
root, cache = map(Path, sys.argv[1:])
async def main():
    told = []
    room = IndexRoom(lambda: cache, "case", on_trouble=told.append)
    room.configure(ServerConfig(), [str(root)])
    room.start()
    await room.settled()
    while not await room.definitions_of("before"): await asyncio.sleep(0.02)
    while not told: await asyncio.sleep(0.02)
    (root / "d" / "x.py").write_text("def after(): pass")
    room.changed(str(root / "d" / "x.py"))
    while not await room.definitions_of("after"): await asyncio.sleep(0.02)
    roots = room._roots
    await room.aclose()
    for thread in [t for each in roots for t in (each._keeper._thread, each._supervisor._thread)]:
        await asyncio.to_thread(thread.join)
    print(json.dumps(told))
asyncio.run(main())
"""


@driver("file-watching-01")
async def limits(case: Case) -> str:
    """Both errors, from the instance and from a watch; then the real limits of a namespace of our own, if one can be made."""
    numbers = [int(number) for number in re.findall(r"OSError\((\d+)\)", case.input["setup"])]
    assert set(numbers) == {errno.ENOSPC, errno.EMFILE}, "the case names other errors"
    for number in numbers:
        for name in ("__init__", "add_callback"):

            def refuse(*_: Any, number: int = number) -> None:
                raise OSError(number, os.strerror(number))

            with mock.patch.object(InotifyFD, name, refuse):
                async with workspace({"h.py": "def before(): ...\n"}) as (scene, root):
                    await until(lambda: paths_of(scene, "before"))
                    await scene.client.until(lambda m: m.get("method") == "window/showMessage")
                    (root / "h.py").write_text("def after(): ...\n")
                    change = {"uri": (root / "h.py").as_uri(), "type": 2}
                    scene.client.notify("workspace/didChangeWatchedFiles", {"changes": [change]})
                    await until(lambda: paths_of(scene, "after"))
                    shown = [m["params"]["message"] for m in scene.client.of_method("window/showMessage")]
            assert len(shown) == 1 and SYSCTL[number] in shown[0], shown
    return f"{len(numbers) * 2} refusals, each told once; {await _in_a_namespace()}"


async def _in_a_namespace() -> str:
    if shutil.which("unshare") is None:
        return "no namespace can be made here"
    seen = []
    async with workspace({"d/x.py": "def before(): ...\n", **{f"e{n}/y.py": "" for n in range(9)}}, index=False) as (_, root):
        for limit, low in (("max_inotify_watches", 3), ("max_inotify_instances", 0)):
            script = f'echo {low} > /proc/sys/user/{limit} && exec "$0" -c "$1" "$2" "$3"'
            done = await asyncio.to_thread(
                subprocess.run,
                ["unshare", "-Ur", "sh", "-c", script, sys.executable, _LOWERED, str(root), str(root.parent / limit)],
                capture_output=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}, timeout=HANG_S,
            )  # fmt: skip
            if not done.stdout:
                why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
                assert "unshare" in why or "/proc/sys" in why, why
                return f"no namespace can be made here ({why})"
            (sentence,) = json.loads(done.stdout)
            assert "fs.inotify" in sentence, sentence
            seen.append(limit)
            write(root, {"d/x.py": "def before(): ...\n"})
    return f"in a namespace with {' and '.join(seen)} lowered, too"


@driver("file-watching-02")
async def atomic_save(case: Case) -> str:
    before, after = re.findall(r"'def (\w+)\(\)", case.input["setup"])
    async with workspace({"app/h.py": f"def {before}(): ...\n"}) as (scene, root):
        target = root / "app" / "h.py"
        await until(lambda: paths_of(scene, before))
        in_editor = f"def {before}(): ...  # typed in the editor\n"
        scene.open(in_editor, target.as_uri())
        for old, new in ((before, after), (after, "third")):  # again: the second one replaces what has replaced the first
            fresh = target.with_name(".h.py.tmp")
            fresh.write_text(f"def {new}(): ...\n")
            os.replace(fresh, target)
            await until(partial(paths_of, scene, new))
            assert await paths_of(scene, old) == [], f"{old} is still there"
        assert scene.server_text(target.as_uri()) == in_editor, "an open document was overwritten"
    return f"{before} became {after}; the open document stayed"


@driver("file-watching-04")
async def overflow(case: Case) -> str:
    """First the kernel's own sign, with every event before it lost; then more files at once than are passed on one by one."""
    async with workspace({"app/a.py": "def first(): ...\n"}, Model.saying("x")) as (scene, root):
        await until(lambda: is_equal_to_disk(scene, root))
        keeper = scene.app.index._roots[0]._keeper
        watch: Any = keeper._watch
        asked: list[list[Any]] = []
        pend = keeper._reader.pend

        def noted(paths: Any) -> bool:
            asked.append(list(paths))
            return pend(asked[-1])

        with mock.patch.object(keeper._reader, "pend", noted):
            with mock.patch.object(watch, "on_event", lambda _event: None):
                write(root, {f"app/lost{n}.py": f"def lost{n}(): ...\n" for n in range(20)})
                (root / "app" / "a.py").unlink()
                watch.on_queue_overflow()
            await until(lambda: is_equal_to_disk(scene, root))
            await until(lambda: paths_of(scene, "lost19"))
            assert await paths_of(scene, "first") == [], "what was removed is still there"
            scene.open("y = \n")
            write(root, {f"b{n % 5}/f{n}.py": f"def f{n}(): ...\n" for n in range(1000)})
            for _ in range(20):
                assert await scene.ask(0, 4, invoked=True), "a request in the meantime is not answered"
            await until(lambda: is_equal_to_disk(scene, root))

            async def is_watched() -> bool:
                return int(watch.n_watches) == 7 and await is_equal_to_disk(scene, root)

            await until(is_watched)
            asked.clear()
            with mock.patch.object(changes, "GATHER_S", 2.0), mock.patch.object(keeper.changes, "_most", 100):
                write(root, {f"b{n % 5}/f{n}.py": f"def g{n}(): ...\n" for n in range(1000)})

            async def is_told() -> bool:  # what was asked for before may have found the new files already
                return bool(asked)

            await until(is_told)
            await until(lambda: paths_of(scene, "g999"))
            await until(lambda: is_equal_to_disk(scene, root))
            await until(lambda: paths_of(scene, "g0"))
            assert not await paths_of(scene, "f0"), "what was replaced is still there"
        n_all = sum(1 for paths in asked if any(not path for path, _ in paths))
        n_single = sum(len(paths) for paths in asked) - n_all
        assert n_single < 900 and 1 <= n_all <= 20, f"{n_all} looks at everything, {n_single} single paths"
    return f"the index is the disk; {n_all} looks at everything and {n_single} single paths for 1000 files"


@driver("file-watching-05")
async def ignored_trees(case: Case) -> str:
    ignored = [name for name in ("node_modules", ".venv", ".git", "build") if name in case.input["setup"]]
    assert len(ignored) == 4
    most = float(re.search(r"rss growth < (\d+) MB", case.expected["note"])[1])  # type: ignore[index]
    files = {
        ".gitignore": "build\n",
        "app/a.py": "def mine(): ...\n",
        "app/sub/b.py": "",
        "web/c.ts": "export function ts() {}",
    }
    for name in ignored:
        files |= {f"{name}/p{n}/lib/x{n}.js": f"function hidden{n}() {{}}\n" for n in range(300)}
    async with workspace(files) as (scene, root):
        before = psutil.Process().memory_info().rss
        await until(lambda: paths_of(scene, "mine"))
        keeper = scene.app.index._roots[0]._keeper

        async def is_watched() -> bool:
            return getattr(keeper._watch, "n_watches", 0) >= 4

        await until(is_watched)
        assert keeper._watch.n_watches == 4, keeper._watch.n_watches  # type: ignore[union-attr]
        counts: dict[str, int] = {}

        async def is_looked_through() -> bool:
            counts.update(*(await scene.app.index.counts()).values())
            return counts["pending"] == 0 and counts["parsed"] + counts["skipped"] + counts["failed"] >= 3

        await until(is_looked_through)
        assert counts["parsed"] == 3 and counts["skipped"] == 0, counts
        write(root, {f"{name}/p0/lib/new.js": "function hidden_new() {}" for name in ignored})
        write(root, {"web/d.ts": "export function last() {}"})
        await until(lambda: paths_of(scene, "last"))
        assert not await paths_of(scene, "hidden_new") and not await paths_of(scene, "hidden0")
        grown = (psutil.Process().memory_info().rss - before) / _MB
        assert grown < most, f"{grown:.0f} MB"
    return f"4 folders watched and 3 files known of {len(files)}; {grown:.0f} MB"
