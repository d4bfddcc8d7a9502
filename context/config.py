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
    references: bool = setting(
        True,
        "Put pieces of other places into the prompt: definitions of what is used near the cursor, callers, what was edited "
        "lately, project rules. They are found in the workspace's index (see the setting index); private files are never among "
        "them.",
    )
    prompt_tokens: int = setting(
        0, "Most tokens of a whole prompt, what is typed and pieces of other places among them; 0 = as n_ctx allows."
    )
    reference_tokens: int = setting(
        1500,
        "Most tokens of definitions, callers and pieces of open files. How many there are follows from cold_budget_ms and from "
        "how fast the machine reads.",
    )
    edited_tokens: int = setting(400, "Most tokens of functions of the same file that were edited last and lie elsewhere.")
    rolling_tokens: int = setting(300, "Most tokens of project rules and recent changes.")
    rules_file: str = setting(
        ".midfill/rules.md",
        "File with the project's rules, below the workspace folder; they stand first in every prompt. An empty text = none.",
    )
    cold_budget_ms: int = setting(1500, "Most time for evaluating a prompt that is not in the cache; 0 = no limit.")
