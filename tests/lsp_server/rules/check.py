"""One document with `$0` at the cursor, one text that a model says, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

from context.gate import Gate
from context.syntax import SyntaxTree, parse
from context.text import Text
from lsp_server.rules.checking import known_names, syntax_check
from lsp_server.rules.judge import RULES, Judge, Stop
from lsp_server.rules.place import Place, place_of
from lsp_server.rules.settled import Settled


@dataclass(frozen=True, slots=True)
class Outcome:
    """document: with what is offered accepted. said: as much as the model was let say."""

    document: str
    settled: Settled
    stop: Stop | None
    said: str
    place: Place

    @property
    def rule(self) -> str:
        return self.stop.rule if self.stop is not None else ""


def place(document: str, language: str = "python", *, accepted: bool = False) -> Place:
    before, after = document.split("$0")
    return place_of(language, before, after, accepted=accepted)


def judged(
    document: str,
    says: str | list[str],
    language: str = "python",
    *,
    whole: bool = True,
    parsed: bool = False,
    off: frozenset[str] = frozenset(),
    accepted: bool = False,
    least: float | None = None,
    logprobs: list[float] | None = None,
) -> Outcome:
    """Feeds the pieces until the judge says stop. Checks what holds of every outcome."""
    before, after = document.split("$0")
    at = place(document, language, accepted=accepted)
    check = known = None
    if parsed:
        text = Text.of(before + after)
        tree = parse(language, text)
        assert isinstance(tree, SyntaxTree)
        check = syntax_check(Gate(language, text, len(before.encode()), tree), at.rest)
        known = known_names(language, text)
    judge = Judge(at, off, check=check, known=known, least=least)
    pieces = [says] if isinstance(says, str) else says
    for i, piece in enumerate(pieces):
        if judge.push(piece, logprobs[i] if logprobs else None) is not None:
            break
    settled = judge.settle(is_whole=whole and len(judge.text) == len("".join(pieces).replace("\r\n", "\n")))
    assert judge.settle(is_whole=whole) == judge.settle(is_whole=whole), "asking changes it"
    assert set(settled.rules) <= set(RULES) and not off & set(settled.rules)
    assert 0 <= settled.n_replaced <= len(at.rest)
    assert bool(settled.text) is not bool(settled.reason)
    assert judge.stop is None or 0 <= judge.stop.n_kept <= len(judge.text)
    settled.text.encode()  # whole characters
    return Outcome(before + settled.text + after[settled.n_replaced :], settled, judge.stop, judge.text, at)
