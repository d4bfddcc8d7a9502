"""uri-identity."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from tests.cases import checks
from tests.cases.case import Case
from tests.cases.checks import Played
from tests.cases.disk import Disk
from tests.cases.drivers.registry import driver
from tests.cases.editor import accepted
from tests.cases.scene import Scene, items_of
from tests.cases.scripted import Model
from tests.cases.workspaces import kept_in
from tests.support.client import CONTENT_MODIFIED, Json

_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/*[^\s:/]")
IGNORED = ".midfillignore"


def uris_in(value: Any) -> Iterator[str]:
    """Every text inside a message that is, as a whole, a URI."""
    if isinstance(value, str):
        if _URI.match(value) and not re.search(r"\s", value):
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from uris_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from uris_in(each)


def renamed(message: Json, uri: str) -> Json:
    """The same message about another document."""
    params = message["params"]
    return {**message, "params": {**params, "textDocument": {**params["textDocument"], "uri": uri}}}


def check_quiet(disk: Disk, uri: str, name: str) -> None:
    """Nothing with that name was looked for, nor any ignore file."""
    assert not (paths := disk.with_any(IGNORED)), f"{uri}: ignore files are looked for: {paths[:3]}"
    assert not (paths := disk.with_any(name)), f"{uri}: looked at {paths[:3]}"


@driver("uri-identity-01")
async def no_file(case: Case) -> str:
    """Once message by message, once in one write. That the watch on the disk sees what it has to is shown with a file."""
    opened, ask, closed = case.input["messages"]
    uri, text = opened["params"]["textDocument"]["uri"], opened["params"]["textDocument"]["text"]
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"XDG_CACHE_HOME": folder, "XDG_DATA_HOME": folder}),
    ):
        async with Scene(Model.saying(" + 1")) as scene:
            with Disk() as disk:
                scene.feed(opened, ask)
                (item,) = items_of(await scene.client.answer(ask["id"]))
                after = accepted(text, item, ask["params"]["position"])
                assert after == text.replace("b = a", "b = a + 1"), f"{after!r}"
                told = (await scene.client.command("midfill.explain"))["result"]
                assert told["document"] == uri, f"{told['document']} is told of"
                scene.feed(closed)
                await scene.client.settle()
                assert len(scene.app.store) == 0, "it is still open"
                scene.feed(opened, {**ask, "id": 2}, closed)
                answer = await scene.client.answer(2)  # or it was closed first
                assert "result" in answer or answer["error"]["code"] == CONTENT_MODIFIED, f"{answer}"
                await scene.idle()
            check_quiet(disk, uri, uri.partition(":")[2])
            sent = json.dumps(scene.client.messages)
            kept = b"".join(kept_in(Path(folder)).values())
            prompts = "".join(prompt.before + prompt.after for prompt in scene.prompts)
            assert "file:" not in sent + prompts + scene.logs.text and b"file:" not in kept, "it became a file"
            assert os.path.abspath(uri.partition(":")[2]) not in sent + prompts + scene.logs.text, "it became a path"
            assert not scene.client.of_method("client/registerCapability"), "the client is asked to watch something"
            assert not scene.logs.above(20), f"{scene.logs.above(20)}"
            with Disk() as disk:
                scene.feed(renamed(opened, Path(folder, "m.py").as_uri()))
                await scene.client.settle()
            assert disk.with_any(IGNORED), "this watch on the disk sees nothing"
    return f"answered; {len(disk.seen)} looks at the disk for a file, none for {uri}"


# Three spellings of each: as opened, changed and asked.
_SPELLINGS = (
    ("file:///w/my%20app/m.py", "file:///w/my app/m.py", "FILE:///w/my%20app/m.py"),
    ("file:///w/%C3%A9t%C3%A9/%e6%97%a5.py", "file:///w/été/日.py", "file:///w/%c3%a9t%C3%A9/日.py"),
    ("file:///D:/w/a%20b/m.py", "file:///d%3a/w/a b/m.py", "file:///d:/w/a%20b/m.py"),
    ("file://localhost/w/m%2Bn.py", "file:///w/m+n.py", "file:/w/m%2bn.py"),
)


@driver("uri-identity-02")
async def one_document(case: Case) -> str:
    messages = case.input["messages"]
    ask = messages[-1]
    groups = [tuple(m["params"]["textDocument"]["uri"] for m in messages), *_SPELLINGS]
    for uris in groups:
        async with Scene(Model.saying(" + 1")) as scene:
            scene.client.send(*(renamed(m, uri) for m, uri in zip(messages, uris, strict=True)))
            (item,) = items_of(await scene.client.answer(ask["id"]))
            checks.check(Played(scene, uris[0], ()), case.expected)
            text = case.expected["document_text"]
            assert accepted(text, item, ask["params"]["position"]) == text.replace("2", "2 + 1"), f"{item}"
            assert len(scene.app.store) == 1, f"{len(scene.app.store)} documents"
            for uri in uris:
                told = (await scene.client.command("midfill.explain"))["result"]
                assert told["document"] in uris and scene.server_text(uri) == text
                answer = await scene.client.inline(uri, **ask["params"]["position"])
                assert items_of(answer), f"{uri} gets nothing"
                told = (await scene.client.command("midfill.explain"))["result"]
                assert told["document"] == uri, f"asked about {uri}, told about {told['document']}"
            assert scene.n_calls == 1, f"{scene.n_calls} engine calls: the spellings have caches of their own"
            strange = {uri for message in scene.client.messages for uri in uris_in(message)} - set(uris)
            assert not strange, f"sent, but not the client's spelling: {strange}"
            assert not scene.logs.above(20), f"{scene.logs.above(20)}"
            scene.client.close(uris[1])
            await scene.client.settle()
            assert len(scene.app.store) == 0
            answer = await scene.client.inline(uris[2], **ask["params"]["position"])
            told = (await scene.client.command("midfill.explain"))["result"]
            assert items_of(answer) == [] and told["document"] == uris[2], f"{told}"
    return f"{len(groups)} documents, three spellings each"
