"""The expectations that a case can state without words, each as a check of what was played.

A check raises AssertionError. A key that is not here needs a driver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.cases.editor import accepted
from tests.cases.scene import Scene, items_of
from tests.support.client import Json

# Said beside an expectation, or about how to play it; not checked by itself.
SILENT = frozenset({"note", "for_each_output"})


@dataclass(frozen=True, slots=True)
class Request:
    """One that was answered, with the editor's text and cursor at that time."""

    answer: Json
    text: str
    cursor: Mapping[str, int]

    @property
    def items(self) -> list[Json]:
        return items_of(self.answer)

    @property
    def after_accept(self) -> str:
        """The text with the first item accepted; without items the text as it is."""
        items = self.items
        return accepted(self.text, items[0], self.cursor) if items else self.text

    @property
    def inserted(self) -> str:
        """What accepting puts behind the cursor, with what stood there already."""
        at = accepted(self.text, {"insertText": "\0"}, self.cursor).index("\0")
        return self.after_accept[at:]


@dataclass(frozen=True, slots=True)
class Played:
    """A case after its last message. uri: the document that it is about."""

    scene: Scene
    uri: str
    requests: tuple[Request, ...]

    @property
    def last(self) -> Request:
        assert self.requests, "nothing was asked"
        return self.requests[-1]


Check = Callable[[Played, Any], None]


def _document_text(played: Played, want: str) -> None:
    _equal(played.scene.server_text(played.uri), want)


def _after_accept(played: Played, want: str) -> None:
    assert played.last.items, f"no item; {played.last.answer}"
    _equal(played.last.after_accept, want)


def _items_empty(played: Played, want: bool) -> None:
    assert (not played.last.items) is want, f"items: {played.last.items}"


def _engine_calls(played: Played, want: int) -> None:
    assert played.scene.n_calls == want, f"{played.scene.n_calls} engine calls"


def _engine_calls_at_most(played: Played, most: int) -> None:
    assert played.scene.n_calls <= most, f"{played.scene.n_calls} engine calls"


def _prompt_tokens_at_most(played: Played, most: int) -> None:
    engine = played.scene.engine
    assert engine is not None
    for request in engine.requests:
        n = len(request.tokens) + len(engine.vocab.encode(request.heal))
        assert n <= most, f"a prompt of {n} tokens, healing included"


def _generated_tokens_below(played: Played, limit: int) -> None:
    engine = played.scene.engine
    assert engine is not None
    assert engine.counters().generated < limit


def _must_not_contain(played: Played, parts: list[str] | str) -> None:
    for part in [parts] if isinstance(parts, str) else parts:
        assert part not in played.last.after_accept, f"{part!r} is in {played.last.after_accept!r}"


def _one_of(played: Played, choices: list[Mapping[str, Any]]) -> None:
    failures: list[str] = []
    for choice in choices:
        try:
            check(played, choice)
        except AssertionError as failure:
            failures.append(str(failure))
        else:
            return
    raise AssertionError("none of these holds: " + "; ".join(failures))


def _results(played: Played, want: list[str]) -> None:
    got = [request.inserted for request in played.requests]
    _equal(got, want)


def _result_contains(number: int, played: Played, part: str) -> None:
    (request,) = (r for r in played.requests if r.answer["id"] == number)
    assert part in request.after_accept, f"{part!r} is not in {request.after_accept!r}"


_CHECKS: dict[str, Check] = {
    "document_text": _document_text,
    "document_after_accept": _after_accept,
    "items_empty": _items_empty,
    "engine_calls": _engine_calls,
    "engine_calls_at_most": _engine_calls_at_most,
    "prompt_tokens_at_most": _prompt_tokens_at_most,
    "generated_tokens_below": _generated_tokens_below,
    "must_not_contain": _must_not_contain,
    "one_of": _one_of,
    "results": _results,
}

_PROMPT_KEY = re.compile(r"prompt_(?:(prefix|suffix)_)?(starts_with|ends_with|must_contain|contains|must_not_contain)")
_RESULT_KEY = re.compile(r"result_(\d+)_contains")


def _prompt_has(section: str, how: str, played: Played, want: list[str] | str) -> None:
    """must_not_contain holds for every prompt, the others for the one that answered last."""
    scene = played.scene
    if how == "must_not_contain":
        wholes = {"prefix": [p.before for p in scene.prompts], "suffix": [p.after for p in scene.prompts]}
        texts = wholes[section] if section else [*wholes["prefix"], *wholes["suffix"]]
        for part in [want] if isinstance(want, str) else want:
            assert not any(part in text for text in texts), f"{part!r} is in a prompt"
        return
    prompt = scene.prompt
    text = {"prefix": prompt.before, "suffix": prompt.after}.get(section, prompt.before + prompt.after)
    for part in [want] if isinstance(want, str) else want:
        holds = {"starts_with": text.startswith(part), "ends_with": text.endswith(part)}.get(how, part in text)
        assert holds, f"the prompt's {section or 'text'} {how} {part!r} does not hold: {text!r}"


def find(key: str) -> Check | None:
    """The check of an expectation, None if there is none."""
    if (prompt := _PROMPT_KEY.fullmatch(key)) is not None:
        return partial(_prompt_has, prompt.group(1) or "", prompt.group(2))
    if (result := _RESULT_KEY.fullmatch(key)) is not None:
        return partial(_result_contains, int(result.group(1)))
    return _CHECKS.get(key)


def is_known(key: str, value: Any) -> bool:
    """Can this expectation be checked, or does nothing have to be?"""
    if key == "one_of":
        return all(is_known(k, v) for choice in value for k, v in choice.items())
    return key in SILENT or find(key) is not None


def check(played: Played, expected: Mapping[str, Any]) -> int:
    """Check all that can be; returns how many that were."""
    n = 0
    for key, value in expected.items():
        checker = find(key)
        if checker is not None:
            checker(played, value)
            n += 1
    return n


def _equal(got: object, want: object) -> None:
    assert got == want, f"got {got!r}, expected {want!r}"
