"""trigger."""

from __future__ import annotations

from tests.cases import generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import Scene, items_of
from tests.cases.scripted import Model
from tests.support.client import span


@driver("trigger-01")
async def after_a_deletion(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        for message in case.input["messages"]:
            scene.feed(message)
            if "id" in message:
                assert not items_of(await scene.client.answer(message["id"])), "something was offered"
                cursor = message["params"]["position"]
        assert scene.n_calls == case.expected["engine_calls"], f"{scene.n_calls} engine calls"
        assert "deleted" in await scene.reason(), await scene.reason()
        await scene.ask(**cursor, invoked=True)
        assert scene.n_calls > case.expected["engine_calls"], "asked by hand, nothing was asked for"
    async with Scene(Model.saying("10"), options={"after_delete": "off"}) as scene:
        scene.open("value = \n")
        first = await scene.accept(0, 8)
        for text, where in (("x", span(0, 8, 0, 8)), ("", span(0, 8, 0, 9))):
            scene.change({"range": where, "text": text})
        n = scene.n_calls
        assert await scene.accept(0, 8) == first and scene.n_calls == n, "what is known is not told after a deletion"
    return "empty or known; asked by hand it is served"


@driver("trigger-02")
async def blank_lines(case: Case) -> str:
    told = []
    for variant in case.input["variants"]:
        document, wants_none = variant["document"], "no request" in variant["want"]
        shipped = {"inside_words": "off", "in_comments": "off", "in_strings": "auto", "after_delete": "off"}
        async with Scene(Model.saying("x = 1"), options=shipped) as scene:
            scene.open(document["text"], document["uri"], document["languageId"])
            await scene.ask(**document["cursor"], uri=document["uri"])
            assert (scene.n_calls == 0) is wants_none, f"{variant['want']}: {scene.n_calls} engine calls"
            assert bool(await scene.reason()) is wants_none
            told.append(str(scene.n_calls))
    return f"{', '.join(told)} engine calls"
