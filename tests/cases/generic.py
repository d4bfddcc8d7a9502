"""Plays any case whose input and expectation are machine-readable.

Owns which cases these are. Messages go out in one write, as they stand, unless the case asks for the result of each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.cases import checks, options
from tests.cases.case import Case
from tests.cases.checks import Played, Request
from tests.cases.scene import Scene
from tests.cases.scripted import Model
from tests.support.client import Json

_INPUT = frozenset({"document", "messages", "context", *options.GROUPS})


def unfit(case: Case) -> str:
    """Why a case can't be played without a driver; "" if it can."""
    strange = sorted(set(case.input) - _INPUT)
    if strange:
        return f"its input has {', '.join(strange)}"
    if not ("document" in case.input or "messages" in case.input):
        return "its input has neither document nor messages"
    messages = case.input.get("messages", ())
    if not all(isinstance(message, Mapping) and "method" in message for message in messages):
        return "a step of its messages is told in words"
    try:
        option = options.unknown(case.input)
    except ValueError as error:
        return str(error)
    if option:
        return f"the option {option} is nothing here yet"
    for key, value in case.expected.items():
        if not checks.is_known(key, value):
            return f"its expectation {key} is told in words"
    if not any(checks.find(key) for key in case.expected):
        return "its expectation is told in words"
    return ""


@asynccontextmanager
async def scene_of(case: Case, *, n_output: int | None = None, **more: Any) -> AsyncIterator[Scene]:
    """The server that a case asks for. n_output: its model says only this output. more: settings that go before the case's."""
    model = Model.of_case(options.named(case.input), n_output)
    if "generated_tokens_below" in case.expected:
        model.step_s = 0.01  # a token takes its time: what ends a text is heard before the next ones are said
    scene = Scene(model, {**options.settings(case.input), **more})
    async with scene:
        yield scene


async def play(scene: Scene, case: Case) -> Played:
    """Bring the case's documents and messages; all requests are answered when it returns."""
    setup = case.input.get("setup")
    for entry in setup.get("open", ()) if isinstance(setup, Mapping) else ():
        uri, _, text = entry.partition(": ")
        scene.open(text, uri)
    if "document" in case.input:
        return await _play_document(scene, case)
    messages: list[Json] = list(case.input["messages"])
    named = [m["params"]["textDocument"]["uri"] for m in messages if "textDocument" in (m.get("params") or {})]
    one_by_one = any("result" in key for key in case.expected)
    requests: list[Request] = []
    pending: list[tuple[int | str, str, Mapping[str, int]]] = []
    for batch in [[m] for m in messages] if one_by_one else [messages]:
        scene.feed(*batch)
        pending += [
            (m["id"], scene.texts[m["params"]["textDocument"]["uri"]], m["params"]["position"]) for m in batch if "id" in m
        ]
        while one_by_one and pending:
            msg_id, text, cursor = pending.pop(0)
            requests.append(Request(await scene.client.answer(msg_id), text, cursor))
    for msg_id, text, cursor in pending:
        requests.append(Request(await scene.client.answer(msg_id), text, cursor))
    await scene.client.settle()
    return Played(scene, named[-1], tuple(requests))


async def _play_document(scene: Scene, case: Case) -> Played:
    document, text = case.input["document"], case.text
    uri, cursor = document["uri"], document["cursor"]
    scene.open(text, uri, document["languageId"])
    invoked = case.input.get("context", {}).get("triggerKind") == 1
    answer = await scene.client.inline(uri, cursor["line"], cursor["character"], invoked=invoked)
    return Played(scene, uri, (Request(answer, text, cursor),))


async def run(case: Case) -> str:
    """Play the case and check what can be checked; a sentence about it."""
    n_outputs = len(case.input.get("model", {}).get("outputs", ())) if case.expected.get("for_each_output") else 0
    n_checked = 0
    for n_output in range(n_outputs) if n_outputs else (None,):
        async with scene_of(case, n_output=n_output) as scene:
            played = await play(scene, case)
            try:
                n_checked += checks.check(played, case.expected)
            except AssertionError as failure:
                if n_output is None:
                    raise
                raise AssertionError(f"output {n_output}: {failure}") from None
            assert set(scene.client.answers.values()) <= {1}, "a request was answered more than once"
    return f"{n_checked} expectations"
