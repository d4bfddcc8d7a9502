"""What pieces of other places are measured and dressed with: for one model and the settings as they are.

Owns which placement a layout really gets: files of their own need a header that begins one. Frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from context.config import ContextConfig
from context.fim import own_marker
from context.tokens import TokenTable
from context.types import Layout
from context.zones.types import ZoneLimits
from context.zones.wrapping import COMMENTS, Wrapping, wrapping
from lsp_server.plans.planning import Planner

OWN_SHARE = (3, 5)  # of a small prompt: what the document may have in front of the cursor beside pieces of other places


@dataclass(frozen=True, slots=True)
class Dressing:
    """table: of its own, so that what is counted in the background is in no request's time. limits: for a document of so many
    bytes. wrapping: for a language; None: it can't hold any. near: most tokens of the document itself before and behind the
    cursor. rules: the setting rules_file."""

    table: TokenTable
    limits: Callable[[int], ZoneLimits]
    wrapping: Callable[[str], Wrapping | None]
    near: tuple[int, int]
    rules: str = ""

    @classmethod
    def of(cls, table: TokenTable, planner: Planner, layout: Layout, config: ContextConfig) -> Dressing:
        near = (min(config.prefix_tokens, planner.full.n_total * OWN_SHARE[0] // OWN_SHARE[1]), config.suffix_tokens)
        return cls(table, planner.zone_limits, partial(wrapping, layout.placement), near, config.rules_file)


def placed(layout: Layout, config: ContextConfig) -> Layout:
    """The layout with the placement that it can do."""
    if not config.file_header or own_marker(layout) is None:
        return replace(layout, placement=COMMENTS)
    return layout
