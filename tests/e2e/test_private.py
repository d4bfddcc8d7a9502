"""private-files: neighbours. What is excluded reaches neither model, tokenizer nor log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.scene import Scene
from tests.cases.scripted import Model
from tests.support.client import in_loop, span

SECRET = "zz-not-real-zz"


async def is_silent(scene: Scene, uri: str, line: int = 0, character: int = 3) -> bool:
    n_calls = scene.n_calls
    items = await scene.ask(line, character, uri=uri, invoked=True)
    assert (not items) == (scene.n_calls == n_calls), "silent, but the model was asked"
    return not items


@pytest.mark.parametrize(
    "uri",
    [
        "file:///w/app/.env.local", "file:///w/app/.ENV", "file:///w/app/production.env", "file:///w/%2Eenv",
        "file:///home/u/.ssh/config", "file:///w/id_ed25519", "file:///w/server.PEM", "file:///w/secrets.yaml",
        "file:///c%3A/w/.env", "untitled:.env",
    ],
)  # fmt: skip
@in_loop
async def test_names_that_are_private(uri: str) -> None:
    async with Scene(Model.saying("q")) as scene:
        scene.open(f"A={SECRET}\n", uri, "shellscript")
        assert await is_silent(scene, uri)
        scene.change({"range": span(0, 0, 0, 0), "text": f"B={SECRET}"}, uri=uri)
        assert await is_silent(scene, uri)
        assert SECRET not in scene.logs.text
        assert scene.server_text(uri) == ""


@in_loop
async def test_a_link_to_a_private_file_and_a_private_link(tmp_path: Path) -> None:
    (tmp_path / ".env.local").write_text(f"A={SECRET}\n")
    (tmp_path / "config").symlink_to(tmp_path / ".env.local")
    (tmp_path / "plain").write_text(f"A={SECRET}\n")
    (tmp_path / "link.env").symlink_to(tmp_path / "plain")
    async with Scene(Model.saying("q"), root=tmp_path.as_uri()) as scene:
        for name in ("config", "link.env"):
            uri = tmp_path.joinpath(name).as_uri()
            scene.open(f"A={SECRET}\n", uri)
            assert await is_silent(scene, uri), name
        assert SECRET not in scene.logs.text


@in_loop
async def test_ignore_files_take_out_and_let_in_but_never_what_is_private(tmp_path: Path) -> None:
    (tmp_path / ".midfillignore").write_text("*.txt\n!open.txt\n!.env\nlocked/\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".midfillignore").write_text("!deep.txt\nopen.txt\n")
    async with Scene(Model.saying("q"), root=tmp_path.as_uri()) as scene:
        silent = {}
        for name in ("a.txt", "open.txt", ".env", "locked/a.py", "sub/deep.txt", "sub/open.txt", "a.py"):
            uri = tmp_path.joinpath(name).as_uri()
            scene.open(f"A={SECRET}\n", uri)
            silent[name] = await is_silent(scene, uri)
        assert [name for name, is_it in silent.items() if not is_it] == ["open.txt", "sub/deep.txt", "a.py"]


@in_loop
async def test_the_users_setting_lets_a_file_in() -> None:
    async with Scene(Model.saying("q"), {"exclude": ["!.env.example", "*.gen.py"]}) as scene:
        for name, want in ((".env.example", False), (".env", True), ("x.gen.py", True), ("x.py", False)):
            uri = f"file:///w/app/{name}"
            scene.open("A=1\n", uri)
            assert await is_silent(scene, uri) is want, name


@in_loop
async def test_a_file_that_becomes_private_is_forgotten_while_its_request_runs() -> None:
    async with Scene(Model.saying("q")) as scene:
        uri = "file:///w/app/notes.py"
        scene.open(f"{SECRET} = \n", uri)
        scene.scripted.gate.clear()
        pending = scene.client.ask_inline(uri, 0, 17)
        await scene.client.settle()
        scene.client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"exclude": ["notes.py"]}}})
        await scene.client.settle()
        scene.scripted.gate.set()
        answer = await scene.client.answer(pending)
        assert "error" in answer or not answer["result"]["items"]
        assert await is_silent(scene, uri)
        assert scene.server_text(uri) == ""
        assert SECRET not in "\n".join(scene.logs.above(10))


@in_loop
async def test_no_other_document_sees_a_private_one() -> None:
    async with Scene(Model.saying("q")) as scene:
        scene.open(f"TOKEN={SECRET}\n", "file:///w/app/.env")
        for i in range(3):
            uri = f"file:///w/app/m{i}.py"
            scene.open("TOKEN = \n", uri)
            assert not await is_silent(scene, uri, 0, 8)
        assert all(SECRET not in prompt.before + prompt.after for prompt in scene.prompts)
        assert SECRET not in scene.logs.text
