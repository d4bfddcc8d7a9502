"""Settings of the context room, frozen. `live` in a field's metadata: applies without restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def setting(default: Any, doc: str, *, live: bool = True) -> Any:
    """A dataclass field with its documentation; `live` says that a change applies without restart."""
    return field(default=default, metadata={"doc": doc, "live": live})


@dataclass(frozen=True, slots=True)
class ContextConfig:
    layout: str = setting(
        "auto",
        "auto: the best that the model was trained for; anchored: typed text behind the middle marker, healed; psm: prefix, "
        "suffix, middle up to the cursor; spm: suffix first, healed; ltr: left to right without the suffix, healed, for models "
        "that can't fill in the middle.",
    )
    file_header: bool = setting(True, "Tell the model the file's path, in its family's own format, where it has one.")
    prefix_tokens: int = setting(1500, "Most tokens of text before the anchor.")
    suffix_tokens: int = setting(256, "Most tokens of text after the cursor.")
    typed_tokens: int = setting(160, "Tokens typed since the anchor after which it moves.")
    cold_budget_ms: int = setting(1500, "Most time for evaluating a prompt that is not in the cache; 0 = no limit.")
