"""result-cache."""

from __future__ import annotations

from tests.cases import checks, generic
from tests.cases.case import Case
from tests.cases.drivers.registry import driver


@driver("result-cache-01")
async def a_line_above(case: Case) -> str:
    """And when the line above is what it was, its answer comes without the model."""
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        first, second = played.requests
        assert first.inserted != second.inserted and scene.n_calls == 2, f"{scene.n_calls} engine calls"
        scene.change({"text": first.text})
        again = await scene.accept(**first.cursor)
        assert again == first.after_accept and scene.n_calls == 2, f"{again!r} after {scene.n_calls} engine calls"
    return "another answer below another line, the first one below the first"


@driver("result-cache-02")
async def another_line_with_that_number(case: Case) -> str:
    async with generic.scene_of(case) as scene:
        played = await generic.play(scene, case)
        checks.check(played, case.expected)
        assert scene.n_calls == len(set(case.expected["results"])), f"{scene.n_calls} engine calls"
    return f"{scene.n_calls} engine calls for {len(played.requests)} answers"
