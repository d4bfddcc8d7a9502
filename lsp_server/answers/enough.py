"""What is wanted for a place, and whether a generation says enough for it, so that the model need not be asked. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from context.prompt_form import to_prompt
from context.types import DocumentSnapshot
from inference.types import FinishReason
from lsp_server.answers.generation import Generation

UNTRUSTED = 8  # the last characters of a text that a limit has cut


@dataclass(frozen=True, slots=True)
class Wants:
    """A completion at `offset` of `snapshot`: of the line, or of more; n texts to choose from; invoked: by hand."""

    snapshot: DocumentSnapshot
    offset: int
    single_line: bool
    n: int
    invoked: bool

    def typed_since(self, anchor: int) -> bytes:
        """The text from there to the cursor, in prompt form."""
        return to_prompt(self.snapshot.text.slice(anchor, self.offset), anchor == 0)

    def has_enough(self, generation: Generation, typed: bytes) -> bool:
        """typed: from its anchor to the cursor."""
        return generation.n_candidates >= self.n and says_enough(generation, typed, self.single_line, self.n, self.invoked)


def says_enough(generation: Generation, typed: bytes, single_line: bool, n: int, invoked: bool) -> bool:
    """Does it, or will it, say what comes behind `typed` (anchor to cursor)? Also that nothing does: then there is nothing to
    ask either, unless somebody asks by hand."""
    first = generation.remainder(typed)
    if first is None or generation.is_running:
        return first is not None
    if generation.is_line is not None and "\n" not in first.since:
        single_line = generation.is_line  # what it was begun for holds as long as one types it
    said = generation.said(typed) if n > 1 else (first,)
    is_cancelled = generation.finish is FinishReason.CANCELLED
    for each in said:
        line, is_line_whole, _ = each.rest.partition("\n")
        if single_line and is_line_whole:
            if line.strip() or not invoked:
                return True
        elif each.rest.strip():
            if each.is_whole or (not is_cancelled and len(each.rest) >= UNTRUSTED):
                return True
        elif each.is_whole and not invoked:
            return True
    return False
