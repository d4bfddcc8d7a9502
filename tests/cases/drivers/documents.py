"""document-edge, eol-encoding, partial-utf8."""

from __future__ import annotations

from tests.cases import checks, generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene
from tests.cases.scripted import Model
from tests.support.client import span


@driver("document-edge-02")
async def nothing_there(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        assert not scene.logs.above(20), f"{scene.logs.above(20)}"
        reason = await scene.reason()
        assert "internal error" not in reason, reason
        return f"{len(played.last.items)} items"


@driver("eol-encoding-01")
async def crlf(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        crlf_prompt = scene.prompt
        # positions are of the CRLF text
        scene.change({"range": span(3, 6, 3, 10), "text": "AREA"})
        await scene.client.settle()
        assert scene.server_text() == scene.texts[played.uri] == case.text.replace("print(area", "print(AREA")
    async with Scene() as scene:
        scene.open(case.text.replace("\r\n", "\n"))
        await scene.ask(**case.input["document"]["cursor"])
        assert scene.prompt == crlf_prompt, "the prompt of the CRLF text is not that of the same text with LF"
    async with Scene(Model.saying("x = 1\n    return x")) as scene:
        scene.open("def f():\r\n    \r\n\r\nf()\r\n")
        text = await scene.accept(1, 4, invoked=True)
        assert text == "def f():\r\n    x = 1\r\n    return x\r\n\r\nf()\r\n", f"line ends are mixed: {text!r}"
    return "prompt without CR, document with CRLF"


@driver("eol-encoding-02")
async def byte_order_mark(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        scene.change({"range": span(0, 1, 0, 7), "text": "from os import path as"})
        text = await scene.accept(0, 23)
        assert text == "\ufefffrom os import path asargv sys\nprint(sys.)\n", f"columns of line 0 drift: {text!r}"
        assert scene.server_text() == scene.texts[played.uri]
        assert scene.prompt.before == "from os import path as", f"{scene.prompt}"
        assert scene.prompt.after == " sys\nprint(sys.)\n", f"{scene.prompt}"
    return "no BOM in the prompt, columns of line 0 count it"


@driver("partial-utf8-02")
async def limit_inside_a_character(case: Case) -> str:
    want = case.expected["document_after_accept"]
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        got = played.last.after_accept
        assert got in (want, want.replace("ok'", "ok '")), f"got {got!r}"
        checks.check(played, {"must_not_contain": case.expected["must_not_contain"]})
        told = (await scene.client.command("midfill.explain"))["result"]
        assert told["finish"] == "length", f"the limit of tokens was not what ended it: {told['finish']}"
        assert told["n_generated_tokens"] == case.input["model"]["max_tokens"], f"{told['n_generated_tokens']} tokens"
        assert not scene.logs.above(20)
    return f"{played.last.inserted!r}"
