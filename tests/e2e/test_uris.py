"""uri-identity: neighbours. What is no file of this disk makes nobody look at the disk; the client's spelling comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.disk import Disk
from tests.cases.drivers.uris import IGNORED, check_quiet, uris_in
from tests.cases.scene import Scene
from tests.cases.scripted import Model
from tests.support.client import in_loop, span

NAME = "zz-nobody-made-this"
NO_FILES = (
    f"untitled:{NAME}", f"untitled:/w/{NAME}/m.py", f"untitled:c%3A%5Cw%5C{NAME}.py",
    f"vscode-notebook-cell:/w/{NAME}/n.ipynb#W0s",
    f"vscode-notebook-cell:/c%3A/w/{NAME}/n.ipynb#W1", f"vscode-remote://ssh-remote%2Bbox/home/u/{NAME}/m.py",
    f"vscode-vfs://github/o/r/{NAME}/m.py", f"git:/w/{NAME}/m.py?%7B%22ref%22%3A%22HEAD%22%7D", f"buffer://{NAME}/m.py",
    f"inmemory://model/{NAME}", f"jupyter-lab:///{NAME}.ipynb", f"file://server/share/{NAME}/m.py", f"zipfile:///w/{NAME}.zip::m.py",
    f"output:{NAME}", f"jdt://contents/{NAME}.jar/x", f"unknown-scheme:{NAME}",
)  # fmt: skip


@pytest.mark.parametrize("uri", NO_FILES)
@in_loop
async def test_what_is_no_file_makes_nobody_look_at_the_disk(uri: str, tmp_path: Path) -> None:
    async with Scene(Model.saying("1"), root=tmp_path.as_uri()) as scene:
        with Disk() as disk:
            scene.open("a = \n", uri)
            scene.change({"range": span(0, 4, 0, 4), "text": "b + "}, uri=uri)
            assert await scene.accept(0, 8, uri=uri) == "a = b + 1\n"
            scene.client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
            told = (await scene.client.command("midfill.explain"))["result"]
            scene.client.close(uri)
            await scene.client.settle()
            await scene.idle()
        check_quiet(disk, uri, NAME)
        assert told["document"] == uri
        assert not scene.logs.above(20)
        assert {uri} >= {each for message in scene.client.messages for each in uris_in(message)}


@pytest.mark.parametrize("root", [f"vscode-remote://wsl%2Bubuntu/home/u/{NAME}", f"vscode-vfs://github/o/{NAME}", "untitled:x"])
@in_loop
async def test_a_workspace_folder_that_is_no_folder_of_this_disk_is_not_looked_at(root: str) -> None:
    with Disk() as disk:
        async with Scene(Model.saying("1"), root=root) as scene:
            scene.open("a = ", f"{root}/m.py")
            assert await scene.ask(0, 4, uri=f"{root}/m.py")
            folder = {"uri": f"{root}/second", "name": NAME}
            scene.client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [folder], "removed": []}})
            await scene.client.settle()
    check_quiet(disk, root, NAME)


@in_loop
async def test_cells_of_a_private_notebook_stay_private_without_a_look_at_the_disk(tmp_path: Path) -> None:
    (tmp_path / IGNORED).write_text("secret/\n")
    cell = f"vscode-notebook-cell:{tmp_path}/secret/n.ipynb#W0"
    async with Scene(Model.saying("1"), root=tmp_path.as_uri()) as scene:
        with Disk() as disk:
            scene.open("a = ", cell)
            assert await scene.ask(0, 4, uri=cell) == []
            assert IGNORED in await scene.reason() and scene.server_text(cell) == ""
            other = f"vscode-notebook-cell:{tmp_path}/n.ipynb#W0"
            scene.open("a = ", other)
            assert await scene.ask(0, 4, uri=other)
        assert not disk.with_any(IGNORED)


@in_loop
async def test_two_cells_of_a_notebook_are_two_documents() -> None:
    async with Scene(Model.saying("1")) as scene:
        cells = [f"vscode-notebook-cell:/w/n.ipynb#W{i}sZmlsZQ%3D%3D" for i in range(3)]
        for i, cell in enumerate(cells):
            scene.open(f"value_{i} = ", cell)
        for i, cell in enumerate(cells):
            assert await scene.accept(0, 10, uri=cell) == f"value_{i} = 1"
        scene.client.close(cells[1])
        await scene.client.settle()
        assert len(scene.app.store) == 2


@pytest.mark.parametrize(
    "spellings",
    [
        ("vscode-remote://wsl%2Bubuntu/u/m.py", "vscode-remote://wsl+ubuntu/u/m.py", "vscode-remote://WSL+Ubuntu/u/m.py"),
        ("jupyter-cell:/c%3A/w/n.ipynb#W0", "jupyter-cell:/C:/w/n.ipynb#W0", "jupyter-cell:/c:/w/n.ipynb#W0"),
        ("file:///c%3A/w/m.py", "file:/C:/w/m.py", "file://C:/w/m.py"),
        ("file:///w/a%5Bid%5D/%40m.py", "file:///w/a[id]/@m.py", "file:///w/a%5bid%5d/@m.py"),
        ("file:///w/%E2%9C%85%20ok.py", "file:///w/✅ ok.py", "file:///w/%e2%9c%85 ok.py"),
        ("untitled:Ünbenannt 1", "untitled:%C3%9Cnbenannt%201", "untitled:Ünbenannt%201"),
    ],
)  # fmt: skip
@in_loop
async def test_three_spellings_one_document_and_each_answer_in_its_own(spellings: tuple[str, str, str]) -> None:
    async with Scene(Model.saying("1")) as scene:
        opened, changed, asked = spellings
        scene.client.open(opened, "a = ")
        scene.client.change(changed, {"range": span(0, 0, 0, 1), "text": "total"}, version=2)
        (item,) = await scene.ask(0, 8, uri=asked)
        assert item["insertText"] == "total = 1"
        assert len(scene.app.store) == 1
        for uri in spellings:
            await scene.ask(0, 8, uri=uri)
            assert (await scene.client.command("midfill.explain"))["result"]["document"] == uri
        assert scene.n_calls == 1
        assert {each for message in scene.client.messages for each in uris_in(message)} <= set(spellings)


@in_loop
async def test_a_refusal_is_told_in_the_clients_spelling_too() -> None:
    async with Scene(Model.saying("1"), {"languages_off": ["markdown"]}) as scene:
        refused = (("file:///C%3A/w/%2Eenv", "python"), ("file:///W/Read Me.md", "markdown"), ("file:///w/closed", ""))
        for uri, language in refused:
            if language:
                scene.open("a = ", uri, language)
            assert await scene.ask(0, 4, uri=uri) == []
            told = (await scene.client.command("midfill.explain"))["result"]
            assert told["document"] == uri and told["reason"]
