"""Which model drafts for another one: the one that the settings name, or a small one of its family that is on disk.

Owns the choice of a file. Refuses to open it: whether its vocabulary fits is found out at load.
"""

from __future__ import annotations

from pathlib import Path

from inference.config import EngineConfig
from inference.models import registry, store
from inference.types import EngineError

AUTO, NONE = "auto", "none"
_LEAST_RATIO = 3.0  # a draft of more than a third of the model's bytes can't save what it costs


def locate_draft(config: EngineConfig, path: Path, name: str) -> Path | None:
    """For the model at `path`, which the registry may know by `name`. None: there is none, or none is wanted. EngineError: the
    one that was named is not there."""
    asked = config.draft_model.strip()
    if config.drafts == "off" or asked in (NONE, ""):
        return None
    directory = store.models_dir(config.models_dir)
    if asked != AUTO:
        return store.resolve(asked, directory)
    model = registry.known(name)
    if model is None:
        return None
    here = {entry.model.id: entry.path for entry in store.installed(directory)}
    for draft in (registry.find(each) for each in model.drafts):
        file = here.get(draft.id, path.parent / draft.file_name)
        try:
            if file.stat().st_size * _LEAST_RATIO <= path.stat().st_size:
                return file
        except OSError:
            continue
    return None


def refusal(name: str, why: str) -> str:
    """One sentence for the user: why a draft model that was asked for is not used."""
    return f"The draft model {name} is not used: {why}; choose another with the setting draft_model, or none."


__all__ = ["AUTO", "NONE", "EngineError", "locate_draft", "refusal"]
