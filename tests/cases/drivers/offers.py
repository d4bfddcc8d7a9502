"""repetition, indent, item-range, context-zone: what is offered, and in place of what."""

from __future__ import annotations

import asyncio

from tests.cases import checks, generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.editor import accepted, index
from tests.cases.scene import URI, Scene, items_of
from tests.cases.scripted import Model
from tests.support.client import Json

CONTENT_MODIFIED = -32801


@driver("repetition-01")
async def a_cycle_of_tokens(case: Case) -> str:
    async with generic.scene_of(case, max_tokens=256) as scene:
        played = await generic.play(scene, case)
        assert checks.check(played, case.expected) == 1
        pieces = case.input["model"]["tokens"]
        n = played.last.inserted.count(pieces[0])
        assert n <= 1, f"{n} copies are offered: {played.last.inserted!r}"
        await scene.idle()
        assert scene.engine is not None
        return f"{scene.engine.counters().generated} of {len(pieces)} tokens were generated, {n} copies are offered"


@driver("indent-02")
async def the_documents_own_indentation(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        checks.check(await generic.play(scene, case), case.expected)
    # and the other way round
    async with Scene(Model.saying("log()\n\t\treturn")) as scene:
        scene.open("def run():\n  if ok:\n    \n", URI)
        text = await scene.accept(2, 4)
        assert text == "def run():\n  if ok:\n    log()\n    return\n", f"{text!r}"
    return "tabs where the document has tabs, blanks where it has blanks"


@driver("item-range-01")
async def typed_on_before_it_was_accepted(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        *begun, changed, asked = case.input["messages"]
        scene.feed(*begun)
        while not scene.n_calls:  # the model says one text to each request
            await asyncio.sleep(0.002)
        scene.feed(changed, asked)
        first, second = await scene.client.answer(1), await scene.client.answer(2)
        if "error" in first:
            assert first["error"]["code"] == CONTENT_MODIFIED, first
            told = "the first is superseded"
        else:
            (item,) = items_of(first)
            assert accepted("cat", item, {"line": 0, "character": 3}) == "catalog()"
            told = "the first is of its own version"
        (item,) = items_of(second)
        text = accepted(scene.texts[URI], item, {"line": 0, "character": 4})
        assert text == "catalog()" and repr(text) in case.expected["result_2"], f"{text!r}"
        assert item["range"]["start"] == {"line": 0, "character": 0}, "the range does not begin with the word"
        await scene.idle()
        assert await scene.accept(0, 4) == text, "asked again, it says something else"
    return f"{told}; {text!r}"


@driver("item-range-02")
async def the_line_is_gone(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        scene.feed(*case.input["messages"])
        answer = await scene.client.answer(1)
        if "error" in answer:
            assert answer["error"]["code"] == CONTENT_MODIFIED, answer
            return "content modified"
        assert not items_of(answer), f"{answer}"
        return "empty"


@driver("item-range-04")
async def closers_behind_the_cursor(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, {"document_after_accept": case.expected["document_after_accept"]})
        (item,) = played.last.items
        cursor, line = case.input["document"]["cursor"], case.text.split("\n", 1)[0]
        said = case.input["model"]["outputs"][0]
        head = case.text[index(case.text, item["range"]["start"]) : index(case.text, cursor)]
        assert item["insertText"].startswith(head), f"{item}"
        behind, end = item["insertText"].removeprefix(head), item["range"]["end"]["character"]
        allowed = {(said, cursor["character"]), (said + line[cursor["character"] :], len(line))}
        assert (behind, end) in allowed, f"{behind!r} up to {end}"
        replaced = case.text[index(case.text, item["range"]["start"]) : index(case.text, item["range"]["end"])]
        assert replaced.startswith(head) and item.get("filterText", replaced).startswith(head)
        return f"{behind!r} up to column {end}"


@driver("item-range-05")
async def a_range_is_always_there(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, {"document_after_accept": case.expected["document_after_accept"]})
        where = played.last.items[0]["range"]
        lines = case.text.split("\n")
        for end in (where["start"], where["end"]):
            assert 0 <= end["line"] < len(lines) and 0 <= end["character"] <= len(lines[end["line"]]), f"{where}"
    return "the item has a range, inside the document"


@driver("context-zone-01")
async def in_a_comment(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        checks.check(await generic.play(scene, case), case.expected)
        cursor = case.input["document"]["cursor"]
        text = await scene.accept(**cursor, invoked=True)
        assert text == case.text.replace("the \n", f"the {case.input['model']['outputs'][0]}\n"), f"{text!r}"
    async with Scene(Model.saying("value is one\ny = 2\n")) as scene:
        scene.open(case.text)
        text = await scene.accept(**cursor, invoked=True)
        assert text == case.text.replace("the \n", "the value is one\n"), f"it leaves the comment: {text!r}"
    return "nothing by itself; by hand one line of the comment"


@driver("context-zone-02")
async def inside_a_block_comment(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        checks.check(await generic.play(scene, case), case.expected)
        assert scene.n_calls == 0
    variants: list[tuple[str, str, str]] = [
        ("python", "m.py", 'def f():\n    """\n    This part $0\n    """\n    return 1\n'),
        ("html", "m.html", "<p>\n<!-- one\n  two $0\n-->\n</p>\n"),
        ("javascript", "m.js", "/**\n * @param a this $0\n */\nfunction f(a) {}\n"),
    ]
    for language, name, text in variants:
        before, after = text.split("$0")
        uri = f"file:///w/app/{name}"
        cursor: Json = {"line": before.count("\n"), "character": len(before.rpartition("\n")[2])}
        async with generic.scene_of(case, in_strings="off") as scene:
            scene.open(before + after, uri, language)
            assert not await scene.ask(**cursor, uri=uri), f"{language}: something is offered"
            assert scene.n_calls == 0, f"{language}: the model was asked"
    return "nothing in a block comment of C, HTML and JavaScript, nor in a docstring"
