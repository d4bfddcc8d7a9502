"""Which layout a model gets, and what it is told about a file's place.

Owns the choice, with a reason for every refusal. Pure. The formats are `inference.families`', their
meaning is `context.fim`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Protocol

from context.types import FileName, Layout, Marker
from inference.families import placement_of
from inference.types import EngineError, FimTokens
from lsp_server.uris import path_of

NO_NAME = FileName()


class Speaks(Protocol):
    """What the choice needs of a vocabulary (`inference.backend.Vocab`)."""

    @property
    def fim(self) -> FimTokens | None: ...
    @property
    def why_no_fim(self) -> str: ...
    @property
    def bos(self) -> Marker | None: ...


def choose_layout(wanted: str, vocab: Speaks, model_name: str) -> Layout:
    """The layout for a setting ("auto", "anchored", "psm", "spm", "ltr"). EngineError: the model was not trained for it."""
    head = () if vocab.bos is None else (vocab.bos,)
    fim = vocab.fim
    if wanted == "ltr":
        if fim is None:
            return Layout("ltr", (*head, "prefix", "typed"))
        return Layout("ltr", (*head, "prefix", "typed"), title=fim.title, lead=fim.lead)
    if fim is None:
        raise EngineError(
            f"{model_name} can't fill in the middle: {vocab.why_no_fim}. Choose one that can (`midfill models list`), or set "
            'layout = "ltr" (--layout ltr): it then sees only what stands before the cursor.'
        )
    if wanted == "auto":
        wanted = "anchored" if fim.psm else "spm"
    order = fim.spm if wanted == "spm" else fim.psm
    if order is None:
        trained = "suffix first only" if wanted != "spm" else "with the prefix first only"
        other = "spm" if wanted != "spm" else "anchored"
        raise EngineError(
            f"{model_name} ({fim.family}) was trained {trained}, so the layout {wanted} would give nonsense; "
            f'set layout = "auto" or "{other}".'
        )
    if wanted == "spm":
        # the typed text goes on from the prefix; a middle marker, where the format has one, comes behind it
        at = order.index("prefix") + 1
        order = (*order[:at], "typed", *order[at:])
    elif wanted == "anchored":
        order = (*order, "typed")
    return Layout(wanted, (*head, *order), fim.header, fim.title, fim.lead, placement_of(fim.family))


def file_name(doc_id: str, roots: Iterable[str]) -> FileName:
    """What a model may be told of a document: its path below the workspace folder it is in, else its name alone.

    roots: absolute paths of the workspace folders. What is not a file of the disk has no name: nothing is made up.
    """
    if not doc_id.startswith("file:"):
        return NO_NAME
    path = PurePosixPath(path_of(doc_id).replace("\\", "/"))
    inside = [PurePosixPath(root.replace("\\", "/")) for root in roots]
    inside = [root for root in inside if root in path.parents]
    if inside:
        root = max(inside, key=lambda each: len(each.parts))
        return FileName(_plain(str(path.relative_to(root))), _plain(root.name))
    return FileName(_plain(path.name), _plain(path.parent.name))


def _plain(name: str) -> str:
    """In one line: a line break in a name would end the header."""
    return " ".join(name.splitlines()).strip()
