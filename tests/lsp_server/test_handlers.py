"""What the handlers pass on, and what they never let through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lsp_server import handlers
from lsp_server.config import Sources
from lsp_server.types import Completion, Item
from lsp_server.workspace import IGNORE_FILE
from tests.lsp_server.conftest import House, Script, build
from tests.support.client import Client, in_loop, span

URI = "file:///w/app/main.py"
WITH_SETTINGS = {"workspace": {"configuration": True}}


async def reason(client: Client) -> str:
    answer = await client.command("midfill.explain")
    told: str = answer["result"]["reason"]
    return told


def shown(client: Client) -> list[str]:
    return [message["params"]["message"] for message in client.of_method("window/showMessage")]


# --- documents


@in_loop
async def test_the_completer_hears_of_every_document_and_change(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a\n")
        client.change(URI, {"range": span(0, 1, 0, 1), "text": "b"}, {"range": span(1, 0, 1, 0), "text": "c"})
        client.change(URI, {"text": "whole"})
        client.change(URI, {"range": span(0, 3, 0, 1), "text": "refused"})
        client.open(URI, "again")
        client.close(URI)
        client.close(URI)
        await client.settle()
        assert [call for call in house.script.calls if call[0] != "configure"] == [
            ("opened", URI), ("changed", URI, 2), ("changed", URI, 3), ("changed", URI, 4),
            ("closed", URI), ("opened", URI), ("closed", URI),
        ]  # fmt: skip
        assert len(house.store) == 0


@in_loop
async def test_changes_that_mean_well_are_taken(house: House) -> None:
    """sync-range-05 and neighbours: a rangeLength that is wrong or no number, a null range, a column "to the end"."""
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "int userid;\nend\n")
        client.change(URI, {"range": span(0, 8, 0, 10), "text": "ID", "rangeLength": 1})
        client.change(URI, {"range": span(0, 4, 0, 8), "text": "User", "rangeLength": -7})
        client.change(URI, {"range": span(1, 0, 1, 2**32 - 1), "text": "fin"})
        client.notify(
            "textDocument/didChange",
            {
                "textDocument": {"uri": URI, "version": None},
                "contentChanges": [{"range": span(0, 0, 0, 3), "text": "long", "rangeLength": "x"}],
            },
        )
        await client.settle()
        assert house.text(URI) == "long UserID;\nfin\n"
        client.change(URI, {"range": None, "text": "new"})
        await client.settle()
        assert house.text(URI) == "new"


@in_loop
async def test_a_change_that_can_not_be_read_makes_the_copy_suspect(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        client.change(URI, {"range": span(0, -1, 0, 0), "text": "x"})
        await client.settle()
        document = house.store.find(URI)
        assert document is not None
        assert document.suspect
        assert (await client.inline(URI, 0, 1))["result"]["items"]


@pytest.mark.parametrize("place", [(0, 11), (1, 11), (1, 99), (7, 0), (1, 2**31 - 1)])
@in_loop
async def test_places_at_and_beyond_the_end(place: tuple[int, int]) -> None:
    """document-edge-01"""
    house = build()
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "import math\nprint(math.")
        (item,) = (await client.inline(URI, *place))["result"]["items"]
        line = 0 if place[0] == 0 else 1
        assert item["range"] == span(line, 0, line, 11)


@in_loop
async def test_several_items_come_in_their_order_each_to_be_accepted() -> None:
    script = Script(lambda query: Completion(7, tuple(Item(0, query.offset, f"x = {word}") for word in ("a", "bb", "c")), ""))
    house = build(script)
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "x = ")
        items = (await client.inline(URI, 0, 4, invoked=True))["result"]["items"]
        assert script.queries[-1].invoked
        assert [item["insertText"] for item in items] == ["x = a", "x = bb", "x = c"]
        assert all(item["range"] == span(0, 0, 0, 4) for item in items)
        for item in items:
            await client.command(item["command"]["command"], *item["command"]["arguments"])
        assert script.of("accepted") == [("accepted", 7)] * 3


@in_loop
async def test_an_empty_document(house: House) -> None:
    """document-edge-02"""
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "")
        (item,) = (await client.inline(URI, 0, 0))["result"]["items"]
        assert (item["insertText"], item["range"]) == ("x", span(0, 0, 0, 0))


# --- silence and its reasons


@in_loop
async def test_private_files_reach_nobody(house: House) -> None:
    """private-files-01, private-files-02"""
    env, script = "file:///w/app/.env", "file:///w/app/run.sh"
    async with house.client() as client:
        await client.initialize()
        client.open(env, "API_KEY=zz\n", "shellscript")
        client.change(env, {"text": "API_KEY=zz-not-real\n"})
        client.open(script, "echo \n", "shellscript")
        assert (await client.inline(env, 0, 8))["result"] == {"items": []}
        assert "exclude" in await reason(client)
        assert house.text(env) == ""
        assert [call for call in house.script.calls if call[0] != "configure"] == [("opened", script)]
        assert (await client.inline(script, 0, 5))["result"]["items"]
        assert [query.snapshot.doc_id for query in house.script.queries] == [script]


@pytest.mark.parametrize(
    ("options", "language", "part"),
    [({"languages_off": ["markdown"]}, "markdown", "languages_off"), ({"max_file_bytes": 1024}, "python", "max_file_bytes")],
)
@in_loop
async def test_documents_that_are_switched_off(options: object, language: str, part: str) -> None:
    house = build()
    async with house.client() as client:
        await client.initialize(options=options)
        client.open(URI, "x" * 2000, language)
        assert (await client.inline(URI, 0, 4))["result"] == {"items": []}
        assert part in await reason(client)
        assert house.script.queries == []


@in_loop
async def test_a_document_nobody_opened(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.change(URI, {"text": "x"})
        assert (await client.inline(URI, 0, 4))["result"] == {"items": []}
        assert "not open" in await reason(client)
        client.open(URI, "x")
        await client.inline(URI, 0, 1)
        assert await reason(client) == "from the script"


@in_loop
async def test_an_ignore_file_that_appears_takes_the_text_away(tmp_path: Path) -> None:
    house = build()
    file = (tmp_path / "x.txt").as_uri()
    async with house.client() as client:
        await client.initialize(root=tmp_path.as_uri())
        client.open(file, "text")
        assert (await client.inline(file, 0, 4))["result"]["items"]
        (tmp_path / IGNORE_FILE).write_text("*.txt\n")
        assert (await client.inline(file, 0, 4))["result"] == {"items": []}
        assert IGNORE_FILE in await reason(client)
        assert house.text(file) == ""
        assert house.script.calls[-1] == ("closed", file)


@in_loop
async def test_saving_an_ignore_file_counts_at_once(tmp_path: Path) -> None:
    house = build(memo_s=1e9)
    file = (tmp_path / "x.txt").as_uri()
    async with house.client() as client:
        await client.initialize(root=tmp_path.as_uri())
        client.open(file, "text")
        await client.settle()
        (tmp_path / IGNORE_FILE).write_text("*.txt\n")
        client.notify("textDocument/didSave", {"textDocument": {"uri": (tmp_path / IGNORE_FILE).as_uri()}})
        await client.settle()
        assert house.script.calls[-1] == ("closed", file)


@in_loop
async def test_a_workspace_folder_that_comes_brings_its_ignore_file(tmp_path: Path) -> None:
    """Before, the folder lies in another root, below which anchored lines mean something else."""
    house = build(memo_s=1e9)
    inner = tmp_path / "inner"
    inner.mkdir()
    file = (inner / "x.txt").as_uri()
    async with house.client() as client:
        await client.initialize(options={"exclude": ["/x.txt"]}, root=tmp_path.as_uri())
        client.open(file, "text")
        await client.settle()
        assert house.text(file) == "text"
        event = {"added": [{"uri": inner.as_uri(), "name": "i"}], "removed": [{"uri": tmp_path.as_uri(), "name": "r"}]}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        await client.settle()
        assert house.text(file) == ""


# --- settings


@in_loop
async def test_a_shutdown_before_the_start_starts_nothing(house: House) -> None:
    async with house.client(configuration=None) as client:
        await client.initialize(capabilities=WITH_SETTINGS)
        await client.until(lambda m: m.get("method") == "workspace/configuration")
        assert await client.shutdown() == 0
    assert house.started == []


@in_loop
async def test_options_are_known_before_the_first_request(house: House) -> None:
    async with house.client() as client:
        await client.initialize(options={"midfill": {"max_tokens": 9}})
        await client.settle()
        ((_, config),) = house.script.of("configure")
        assert config.server.max_tokens == 9
        assert [started.server.max_tokens for started in house.started] == [9]
        assert shown(client) == []


@in_loop
async def test_problems_are_told_once(tmp_path: Path) -> None:
    file = tmp_path / "midfill.toml"
    file.write_text("max_tokens = \n")
    house = build(sources=Sources(file))
    async with house.client(configuration=[{"adopt_mss": 3}]) as client:
        await client.initialize(options={"enabld": True, "exclude": ["!"]}, capabilities=WITH_SETTINGS)
        await client.until(lambda m: "adopt_mss" in str(m.get("params")))
        first, second = shown(client)
        assert all(part in first for part in ("line 1", "'enabld'", "'enabled'", "exclude"))
        assert "'adopt_ms'" in second
        client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"adopt_mss": 3}}})
        await client.settle()
        assert len(shown(client)) == 2


@in_loop
async def test_the_editors_settings_come_before_the_start(house: House) -> None:
    async with house.client(configuration=[{"n_ctx": 1024, "engine": {"model": "x.gguf"}}]) as client:
        await client.initialize(capabilities=WITH_SETTINGS)
        await until(lambda: bool(house.started))
        assert (house.started[0].engine.n_ctx, house.started[0].engine.model) == (1024, "x.gguf")
        assert shown(client) == []
        client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"n_ctx": 2048, "adopt_ms": 1}}})
        await client.settle()
        config = house.script.of("configure")[-1][1]
        assert (config.engine.n_ctx, config.server.adopt_ms) == (2048, 1)
        (message,) = shown(client)
        assert "n_ctx" in message and "restart" in message and "adopt_ms" not in message
        assert len(house.started) == 1


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@in_loop
async def test_a_client_that_never_answers_holds_up_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """startup-blocking-02"""
    monkeypatch.setattr(handlers, "CONFIGURATION_WAIT_S", 1e6)
    async with house.client(configuration=None, agrees_to_progress=False) as client:
        await client.initialize(capabilities={**WITH_SETTINGS, "window": {"workDoneProgress": True}})
        client.open(URI, "a = ")
        assert (await client.inline(URI, 0, 4))["result"]["items"]
        assert client.of_method("workspace/configuration")
        assert house.started == []
        client.notify("workspace/didChangeConfiguration", {"settings": {"midfill": {"max_tokens": 5}}})
        await client.settle()
        assert house.room.config.server.max_tokens == 5


@in_loop
async def test_the_start_comes_although_the_client_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "CONFIGURATION_WAIT_S", 0.01)
    house = build()
    async with house.client(configuration=None) as client:
        await client.initialize(capabilities=WITH_SETTINGS)
        await until(lambda: bool(house.started))
        asked = client.of_method("workspace/configuration")[0]["id"]
        client.send({"id": asked, "result": [{"max_tokens": 5}]})  # too late: passed over
        await client.settle()
        assert house.room.config.server.max_tokens == 64


@pytest.mark.parametrize("answer", [[None], [], None, "text", [[1]], [{"midfill": None}], {"error": 1}])
@in_loop
async def test_odd_answers_about_settings(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "CONFIGURATION_WAIT_S", 0.05)
    house = build()
    async with house.client(configuration=answer) as client:
        await client.initialize(capabilities=WITH_SETTINGS)
        await until(lambda: bool(house.started))
        assert house.started[0].server.max_tokens == 64


@in_loop
async def test_only_the_last_answer_about_settings_counts(house: House) -> None:
    async with house.client(configuration=None) as client:
        await client.initialize(capabilities=WITH_SETTINGS)
        await client.until(lambda m: m.get("method") == "workspace/configuration")
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        await until(lambda: len(client.of_method("workspace/configuration")) == 2)
        first, second = (message["id"] for message in client.of_method("workspace/configuration"))
        client.send({"id": second, "result": [{"max_tokens": 2}]}, {"id": first, "result": [{"max_tokens": 1}]})
        await client.settle()
        await until(lambda: house.room.config.server.max_tokens != 64)
        await client.settle()
        assert house.room.config.server.max_tokens == 2
