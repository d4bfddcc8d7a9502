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
    scores = _scores(logits, params, recent, allowed)
    picked = highest(scores) if params.temperature <= 0 else _draw(scores, params, rng)
    return picked if allowed is None else int(allowed[picked])


def highest(scores: NDArray[np.float32]) -> int:
    """The place of the largest one, the first of several. `argmax` alone copies what is read-only, as a backend's logits are:
    0.6 MB at each token with a vocabulary of 150,000."""
    return int(np.argmax(scores == scores.max()))


def likeliest(
    logits: NDArray[np.float32],
    params: SamplingParams,
    recent: Sequence[int],
    n: int,
    allowed: NDArray[np.int64] | None = None,
) -> list[tuple[int, float]]:
    """The best n ids, or as many as are allowed, the greedy choice first: (id, its probability divided by the best one's)."""
    scores = _scores(logits, params, recent, allowed)
    n = min(n, len(scores))
    top = np.sort(np.argpartition(-scores, n - 1)[:n])
    top = top[np.argsort(-scores[top], kind="stable")]
    shares = np.exp(scores[top] - scores[top[0]])
    ids = top if allowed is None else allowed[top]
    return [(int(i), float(share)) for i, share in zip(ids, shares, strict=True)]


def log_probability(logits: NDArray[np.float32], token: int, allowed: NDArray[np.int64] | None = None) -> float:
    """Natural logarithm of a token's probability, among all tokens or those allowed: nothing is penalized."""
    scores = logits if allowed is None else logits[allowed]
    top = scores.max()
    return float(logits[token] - top) - float(np.log(np.exp(scores - top).sum(dtype=np.float64)))


def _scores(
    logits: NDArray[np.float32], params: SamplingParams, recent: Sequence[int], allowed: NDArray[np.int64] | None
) -> NDArray[np.float32]:
    if params.repeat_penalty != 1.0 and recent:
        logits = _penalized(logits, recent, params.repeat_penalty)
    return logits if allowed is None else logits[allowed]


def _penalized(logits: NDArray[np.float32], recent: Sequence[int], penalty: float) -> NDArray[np.float32]:
    ids = np.unique(np.fromiter(recent, dtype=np.int64))
    out = logits.copy()
    seen = out[ids]
    out[ids] = np.where(seen > 0, seen / penalty, seen * penalty)
    return out


def _draw(scores: NDArray[np.float32], params: SamplingParams, rng: np.random.Generator) -> int:
    p = np.exp((scores - scores.max()) / np.float32(params.temperature))
    if params.top_p >= 1.0 and params.min_p <= 0.0:
        return _drawn(p, rng)
    ids = np.arange(len(p)) if params.top_p >= 1.0 else _nucleus(p, params.top_p * float(p.sum(dtype=np.float64)))
    ids = ids[p[ids] >= params.min_p]
    return int(ids[_drawn(p[ids], rng)])


def _drawn(weights: NDArray[np.float32], rng: np.random.Generator) -> int:
    cumulated = np.cumsum(weights, dtype=np.float64)
    return min(int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")), len(weights) - 1)


def _nucleus(p: NDArray[np.float32], mass: float) -> NDArray[np.int64]:
    """The fewest ids, most probable first, that hold `mass`. Sorts no more than it needs: a vocabulary has 150,000."""
    for floor in (1e-2, 1e-5, 0.0):
        ids = np.flatnonzero(p >= floor)
        if floor == 0.0 or float(p[ids].sum(dtype=np.float64)) > mass:
            break
    ids = ids[np.argsort(-p[ids], kind="stable")]
    before = np.cumsum(p[ids], dtype=np.float64) - p[ids]
    return ids[: max(1, int(np.searchsorted(before, mass, side="left")))]
