"""From logits to the next token: greedy, or temperature with top-p and min-p, after a repeat penalty.

Pure: the random generator belongs to the request. Ties go to the smaller id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.types import SamplingParams


def choose(
    logits: NDArray[np.float32],
    params: SamplingParams,
    recent: Sequence[int],
    rng: np.random.Generator,
    allowed: NDArray[np.int64] | None = None,
) -> int:
    """The next token id.

    logits: shape (n_tokens,), not changed. recent: tokens the repeat penalty applies to. allowed: ids to choose from (not
    empty), ascending; None = all. The probabilities of the allowed ids are renormalized.
    """
    if params.repeat_penalty != 1.0 and recent:
        logits = _penalized(logits, recent, params.repeat_penalty)
    scores = logits if allowed is None else logits[allowed]
    picked = int(np.argmax(scores)) if params.temperature <= 0 else _draw(scores, params, rng)
    return picked if allowed is None else int(allowed[picked])


def _penalized(logits: NDArray[np.float32], recent: Sequence[int], penalty: float) -> NDArray[np.float32]:
    ids = np.unique(np.fromiter(recent, dtype=np.int64))
    out = logits.copy()
    seen = out[ids]
    out[ids] = np.where(seen > 0, seen / penalty, seen * penalty)
    return out


def _draw(scores: NDArray[np.float32], params: SamplingParams, rng: np.random.Generator) -> int:
    order = np.argsort(-scores, kind="stable")
    scaled = scores[order].astype(np.float64) / params.temperature
    p = np.exp(scaled - scaled[0])
    p /= p.sum()
    keep = p >= params.min_p * p[0]
    if params.top_p < 1.0:
        # the smallest set that reaches top_p: a token is kept while what came before it falls short
        keep &= (np.cumsum(p) - p) < params.top_p
    keep[0] = True
    p = np.where(keep, p, 0.0)
    return int(order[rng.choice(len(p), p=p / p.sum())])
