"""The models midfill knows by name: looking them up.

Refuses anything that touches the disk or the network. The facts stand in `facts`, the words in `model`.
"""

from __future__ import annotations

import difflib

from inference.models.facts import MODELS
from inference.models.model import Model, Shape, Terms, WheelPiece
from inference.types import EngineError

__all__ = ["MODELS", "Model", "Shape", "Terms", "WheelPiece", "find", "known", "unknown"]


def known(model_id: str) -> Model | None:
    """The model of that id, or None."""
    return next((model for model in MODELS if model.id == model_id), None)


def find(model_id: str) -> Model:
    """The model of that id. EngineError: there is none; the message names the nearest."""
    model = known(model_id)
    if model is None:
        raise unknown(model_id)
    return model


def unknown(name: str, others: tuple[str, ...] = ()) -> EngineError:
    """The error for a name that nothing has. others: names that are known beside the models of the registry."""
    near = difflib.get_close_matches(name.lower(), [*(model.id for model in MODELS), *others], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "choose one of `midfill models list`, or give the path of a GGUF file."
    return EngineError(f"There is no model named {name!r}; {hint}")
