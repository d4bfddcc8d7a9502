"""A text on its way from what was said to what is offered, and the rules that have changed it."""

from __future__ import annotations

from dataclasses import dataclass, field

from lsp_server.rules import fitting
from lsp_server.rules.place import Place


@dataclass(slots=True)
class Draft:
    """A text on its way. n_said: characters of the generation up to its end."""

    place: Place
    off: frozenset[str]
    text: str
    n_said: int
    rules: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def is_on(self, rule: str) -> bool:
        return rule not in self.off

    def keep(self, rule: str, n: int) -> None:
        """Only the first n characters."""
        if n < len(self.text):
            self.n_said -= len(self.text) - n
            self.text = self.text[:n]
            self.rules.append(rule)

    def fit(self) -> int:
        """How much of the rest of the line the text stands for."""
        rest = self.place.rest
        n = fitting.fit(self.text, rest)[1]
        rule = "behind" if any(map(str.isalnum, rest[:n])) else "closers"
        if not n:
            n, rule = fitting.n_overlap(self.text, rest), "behind"
        if not n or not self.is_on(rule):
            return 0
        self.rules.append(rule)
        return n
