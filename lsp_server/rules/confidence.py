"""How sure one may be of a text, as one number, and from where on it is not shown by itself.

Owns the weights and the threshold. The number is the mean logarithmic probability of the tokens offered, less what speaks
against the text; None where the engine told no probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence

# A call of a name that is neither in the file nor among builtins nor indexed is wrong more often than not, however likely its
# tokens were: as much as if each token had been half as likely.
UNKNOWN_NAME = 0.7
# One character is hardly worth looking at.
TOO_SHORT = 0.3
SHORTEST = 2  # characters that aren't blank
# Of a text as probable as 0.37 for each of its tokens. Of 540 recorded places (0.5B) it hides 51 of 508 texts, one of them
# right; `bench.quality` tells for each threshold what is left and how much of it is right.
SILENT_BELOW = -1.0
CALIBRATED = "qwen2.5-coder"  # the family of models that this was measured with; what another one is sure of, nobody knows
# Of so many tokens the engine tells probabilities: enough for most lines, and less than a hundredth of what they take.
N_TOKENS = 16


def silent_below(model: str) -> float | None:
    """From where on what a model of that name says is shown by itself; None: all of it is."""
    return SILENT_BELOW if CALIBRATED in model.lower() else None


def n_wanted(model: str) -> int:
    """Tokens whose probability is asked for."""
    return N_TOKENS if silent_below(model) is not None else 0


def confidence(text: str, mean_logprob: float | None, n_unknown: int) -> float | None:
    """n_unknown: names that it calls and nobody knows."""
    if mean_logprob is None:
        return None
    short = TOO_SHORT if len("".join(text.split())) < SHORTEST else 0.0
    return mean_logprob - UNKNOWN_NAME * n_unknown - short


def best_first(confidences: Sequence[float | None]) -> list[int]:
    """Indices, the surest first; those of which nothing is known keep their order, behind the others."""
    return sorted(range(len(confidences)), key=lambda i: (confidences[i] is None, -(confidences[i] or 0.0), i))


def why_unsure(value: float, least: float) -> str:
    return f"the model is not sure enough ({value:.2f}, and {least:.2f} is wanted)"
