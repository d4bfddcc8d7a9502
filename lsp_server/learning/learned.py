"""What a server has learned while somebody works with it, over all documents: what was generated, of what it depended, when to
ask, and what became of suggestions. Owns the parts and what joins them; each does its own work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from context.types import DocumentSnapshot
from lsp_server.answers.results import Results
from lsp_server.answers.versions import Versions
from lsp_server.asking.timing import Asking
from lsp_server.asking.trigger import LastEdit
from lsp_server.learning.outcomes import Outcomes
from lsp_server.trees import Trees


class Learned:
    def __init__(self, clock: Callable[[], float], trees: Trees) -> None:
        self._clock = clock
        self._roots: tuple[str, ...] = ()
        self.results = Results(0)
        self.versions = Versions()
        self.asking = Asking(clock, trees)
        self.outcomes = Outcomes(clock, self.asking.reluctance)

    def changed(self, snapshot: DocumentSnapshot, edit: LastEdit | None) -> None:
        self.versions.edited(snapshot.doc_id, self._clock())
        self.asking.changed(edit)

    def asked(self, roots: Sequence[str]) -> None:
        """roots: of the workspace; when they have changed, prompts call files by other names."""
        if tuple(roots) != self._roots:
            self._roots = tuple(roots)
            self.results.forget()

    def forget(self, max_bytes: int) -> None:
        """What was generated, since settings or the engine are others: that is rare, and then hardly anything is of use.
        max_bytes: to keep from now on."""
        self.results.forget()
        self.results.max_bytes = max_bytes
