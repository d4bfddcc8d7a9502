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
# Not calibrated: `bench.quality` tells for each threshold what is left and how much of it is right. Until then nothing is
# withheld.
SILENT_BELOW: float | None = None


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
