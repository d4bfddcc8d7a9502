"""context-budget."""

from __future__ import annotations

from inference.types import FinishReason, GenerationRequest
from tests.cases import checks, generic, options
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.scene import URI, Scene
from tests.cases.scripted import Model


@driver("context-budget-01")
async def nearest_lines(case: Case) -> str:
    """With and without a BOS token; what is left out is what is far away."""
    lines, cursor = case.text.splitlines(keepends=True), case.input["document"]["cursor"]
    here = lines[cursor["line"]]
    told = ""
    for bos in (False, True):
        model = Model.of_case({**case.input["model"], "gguf_meta": {"add_bos_token": bos}})
        async with Scene(model, options.settings(case.input)) as scene:
            played = await generic.play(scene, case)
            checks.check(played, case.expected)
            assert played.last.after_accept == case.text.replace("total = ", "total = sum(vs)"), "no normal response"
            prompt = scene.prompt
            assert (model.vocab.bos is not None and prompt.tokens[0] == model.vocab.bos[0]) is bos, "BOS is lost"
            before, after = prompt.before.splitlines(keepends=True), prompt.after.splitlines(keepends=True)
            n_before, n_after = len(before) - 1, len(after) - 1
            at, split = cursor["line"], cursor["character"]
            assert before == [*lines[at - n_before : at], here[:split]], "not whole lines before the cursor"
            assert after == [here[split:], *lines[at + 1 : at + 1 + n_after]], "not whole lines behind the cursor"
            assert n_before >= 10 and n_after >= 10, f"{n_before} lines before, {n_after} behind"
            told = f"{len(prompt.tokens)} tokens, {n_before} lines before the cursor, {n_after} behind"
    return told


@driver("context-budget-02")
async def exactly_full(case: Case) -> str:
    """Through the whole server, with documents whose untrimmed prompt and max_tokens come to these sums, and at the engine's
    own door, with prompts of that length."""
    n_ctx, n_max = case.input["setup"]["n_ctx"], 64
    for total in (n_ctx - 1, n_ctx, n_ctx + 1):
        async with Scene(Model.saying("sum(vs)\n"), {"n_ctx": n_ctx, "max_tokens": n_max}) as scene:
            n_filled = total - n_max - 3 - len(scene.model.vocab.encode(b"x = \n"))
            scene.open("\n" * (n_filled % 2) + "a\n" * (n_filled // 2) + "x = \n")
            last = scene.texts[URI].count("\n") - 1
            text = await scene.accept(last, 4)
            assert text.endswith("x = sum(vs)\n"), f"{total}: {text[-20:]!r}"
            assert len(scene.prompt.tokens) + n_max <= n_ctx, f"{total}: {len(scene.prompt.tokens)} tokens"
        async with Scene(Model.saying("foo foo foo ", endless=True), {"n_ctx": n_ctx}) as scene:
            assert scene.engine is not None
            tokens = scene.model.vocab.encode(b"x" * (total - n_max))
            assert len(tokens) + n_max == total
            stream = scene.engine.submit(GenerationRequest(scene.engine.next_id(), tokens, n_max=n_max))
            n_characters = 0
            while (event := await stream.next()).finish is None:
                n_characters += len(event.text)
            want = FinishReason.LENGTH if total <= n_ctx else FinishReason.CONTEXT
            assert event.finish is want and n_characters and not event.error, f"{total}: {event}"
            assert event.stats.n_generated == min(n_max, n_ctx - len(tokens)), f"{total}: {event.stats}"
    return "all three answer"
