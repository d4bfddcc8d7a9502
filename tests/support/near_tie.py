"""Two runs of the same requests on a real model say the same, but for near ties.

Owns a backend that records what passes through it, an engine stepped by hand around it, and the rule by which two runs may
part: at the first differing token each run's choice is the other's second, and the reference's gap between the two is at most
twice the largest logit difference measured between the two at equal tokens, never above MAX_GAP. Comparison ends there. Also
required, tie or not: every token is the best of a logits row that was computed for exactly the tokens before it.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inference.backend import Outcome, Row, Vocab
from inference.engine import Engine, MakeDrafting
from inference.healing import HealingIndex
from inference.run import Run
from inference.types import Costs, FinishReason, GenerationRequest, TokenEvent

MAX_GAP = 0.5
CUT_SHORT = (FinishReason.CANCELLED, FinishReason.CONTEXT)  # what such a run says is a beginning
MS_PER_TOKEN = 10.0  # a made-up cost: chunks are sized by it, nothing is measured

Path = tuple[int, ...]
Logits = NDArray[np.float32]
Rows = dict[Path, list[Logits]]  # path -> the different logits that were computed behind it


class Recording:
    """A Backend around another one (with `seq_length`): passes everything through, keeps tokens and logits.

    rows: every logits row that was asked for, by the tokens its sequence held. forced: outcomes given without asking the
    backend. on_decode: called before each decode, where another thread's submit or cancel may come in. lent: `close` is not
    passed on.
    """

    def __init__(self, backend: Any, rows: Rows | None = None, *, lent: bool = True) -> None:
        self.backend = backend
        self.rows: Rows = {} if rows is None else rows
        self.forced: list[Outcome] = []
        self.on_decode: Callable[[Sequence[Row]], None] = lambda rows: None
        self.outcomes: Counter[Outcome] = Counter()
        self.n_copied = self.n_restored = 0
        self.refuses_restores = False
        self.is_closed = False
        self._lent = lent
        self._held: list[list[int]] = [[] for _ in range(backend.n_seq_max)]
        self._saved: dict[bytes, tuple[int, ...]] = {}  # by hash of the state
        self._paths: dict[int, Path] = {}  # of the last batch, by row

    @property
    def vocab(self) -> Vocab:
        vocab: Vocab = self.backend.vocab
        return vocab

    @property
    def n_ctx(self) -> int:
        return int(self.backend.n_ctx)

    @property
    def n_batch(self) -> int:
        return int(self.backend.n_batch)

    @property
    def n_seq_max(self) -> int:
        return int(self.backend.n_seq_max)

    @property
    def can_roll_back(self) -> bool:
        return bool(self.backend.can_roll_back)

    @property
    def can_abort(self) -> bool:
        return bool(self.backend.can_abort)

    def tokens(self, seq: int) -> list[int]:
        """What was put into a sequence's cells and not removed since."""
        return self._held[seq]

    def seq_length(self, seq: int) -> int:
        return int(self.backend.seq_length(seq))

    def decode(self, rows: Sequence[Row]) -> Outcome:
        self.on_decode(rows)
        outcome = self.forced.pop(0) if self.forced else self.backend.decode(rows)
        self.outcomes[outcome] += 1
        self._paths = {}
        if outcome is Outcome.FATAL:  # a forced one, too, loses what the cells held
            for seq in range(self.n_seq_max):
                self.truncate(seq, 0)
        if outcome is Outcome.OK:
            for i, row in enumerate(rows):
                self._held[row.seq].append(row.token)
                if row.wants_logits:
                    self._paths[i] = tuple(self._held[row.seq])
        return outcome

    def logits(self, i: int) -> Logits:
        logits: Logits = self.backend.logits(i)
        known = self.rows.setdefault(self._paths[i], [])
        if not any(np.array_equal(logits, k) for k in known):
            known.append(logits.copy())
        return logits

    def truncate(self, seq: int, n: int) -> bool:
        done = bool(self.backend.truncate(seq, n))
        if done:
            del self._held[seq][max(n, 0) :]
        return done

    def copy(self, src: int, dst: int, n: int) -> bool:
        done = bool(self.backend.copy(src, dst, n))
        if done:
            self._held[dst] = self._held[src][:n]
            self.n_copied += 1
        return done

    def save(self, seq: int) -> bytes | None:
        state: bytes | None = self.backend.save(seq)
        if state is not None:
            self._saved[hashlib.blake2b(state).digest()] = tuple(self._held[seq])
        return state

    def restore(self, seq: int, state: bytes, n: int) -> bool:
        tokens = self.saved_tokens(state)
        assert len(tokens) == n and not self._held[seq]
        done = not self.refuses_restores and bool(self.backend.restore(seq, state, n))
        if done:
            self._held[seq] = list(tokens)
            self.n_restored += 1
        return done

    def saved_tokens(self, state: bytes) -> tuple[int, ...]:
        """What a state holds; KeyError if it is not as it was given."""
        return self._saved[hashlib.blake2b(state).digest()]

    def set_abort(self, check: Callable[[], bool]) -> None:
        self.backend.set_abort(check)

    def close(self) -> None:
        self.is_closed = True
        if not self._lent:
            self.backend.close()


@dataclass(frozen=True)
class Said:
    """What a run chose behind its prompt (a control token that ended it is not in it), and how it ended."""

    request: GenerationRequest
    tokens: Path
    finish: FinishReason | None

    @classmethod
    def of(cls, run: Run) -> Said:
        return cls(run.request, tuple(run.path[run.n_prompt :]), run.finish)


def watch(engine: Engine) -> dict[int, Run]:
    """The runs of all requests submitted from now on, by request id; also while another thread steps the engine."""
    runs: dict[int, Run] = {}
    put = engine._inbox.put

    def watched(run: Run) -> bool:
        runs[run.request_id] = run
        return put(run)

    engine._inbox.put = watched  # type: ignore[method-assign]
    return runs


class Driver:
    """An engine stepped by hand on a real backend. After every step what it recorded of each sequence equals the cells.

    Its clock goes on by a step's made-up cost with each step: nothing depends on how long anything takes.
    """

    def __init__(
        self,
        backend: Any,
        *,
        n_chunk: int,
        n_ctx: int,
        n_sequences: int = 3,
        background_rows: int = 8,
        rows: Rows | None = None,
        checks_logits: bool = True,
        n_stowed: int = 0,
        stow_bytes: int = 1 << 30,
        make_drafting: MakeDrafting | None = None,
    ) -> None:
        for seq in range(backend.n_seq_max):
            assert backend.truncate(seq, 0)
        self.now = 0.0
        self.recording = Recording(backend, rows)
        self.engine = Engine(
            self.recording,
            n_ctx=n_ctx,
            n_sequences=n_sequences,
            costs=Costs(MS_PER_TOKEN, MS_PER_TOKEN),
            chunk_ms=n_chunk * MS_PER_TOKEN,
            background_rows=background_rows,
            n_stowed=n_stowed,
            stow_bytes=stow_bytes,
            clock=lambda: self.now,
            make_drafting=make_drafting,
        )
        self.runs = watch(self.engine)
        self.events: dict[int, list[TokenEvent]] = {}
        self._checks_logits = checks_logits

    def submit(self, request: GenerationRequest) -> None:
        self.engine.submit(request, self.events.setdefault(request.request_id, []).append)

    def step(self) -> bool:
        busy = self.engine.step()
        self.now += MS_PER_TOKEN / 1000
        self.check()
        return busy

    def drain(self) -> None:
        for _ in range(4000):
            if not self.step():
                return
        raise AssertionError("the engine never came to rest")

    def check(self) -> None:
        for sequence in self.engine.kv.sequences:
            assert sequence.tokens == self.recording.tokens(sequence.seq)
            assert len(sequence.tokens) == self.recording.seq_length(sequence.seq)
            assert all(p < len(sequence.tokens) for p in sequence.logits)
            if self._checks_logits:
                for p, kept in sequence.logits.items():
                    known = self.recording.rows.get(tuple(sequence.tokens[: p + 1]), [])
                    assert any(np.array_equal(kept, k) for k in known), "kept logits of other tokens"
        for stowed in self.engine.kv.stowage.all:
            assert stowed.tokens == self.recording.saved_tokens(stowed.state), "a stowed state is not what it was"
            if self._checks_logits:
                for p, kept in stowed.logits.items():
                    assert any(np.array_equal(kept, k) for k in self.recording.rows.get(stowed.tokens[: p + 1], []))
        for events in self.events.values():
            ends = [i for i, e in enumerate(events) if e.finish is not None]
            assert ends in ([], [len(events) - 1]), "exactly one event ends a request, and it is the last"

    def said(self, request_id: int) -> Said:
        return Said.of(self.runs[request_id])


@dataclass(frozen=True)
class Comparison:
    """n_equal: tokens chosen alike. gap: of the reference where they part, else None. noise: largest logit difference seen."""

    n_equal: int
    gap: float | None
    noise: float

    @property
    def parted(self) -> bool:
        return self.gap is not None


@dataclass
class Comparer:
    """Compares what two runs said of the same request; AssertionError where they differ by more than a near tie."""

    vocab: Vocab
    index: HealingIndex = field(init=False)

    def __post_init__(self) -> None:
        self.index = HealingIndex(self.vocab.pieces, self.vocab.stop_tokens)

    def compare(self, reference: Said, other: Said, reference_rows: Rows, other_rows: Rows) -> Comparison:
        request = reference.request
        assert (request.tokens, request.heal) == (other.request.tokens, other.request.heal)
        path, rest, noise = request.tokens, request.heal, 0.0
        for k in range(len(reference.tokens) + len(other.tokens) + 2):
            goes_on = [self._goes_on(said, k) for said in (reference, other)]
            if not all(goes_on):
                for said, more in zip((reference, other), goes_on, strict=True):
                    assert not any(goes_on) or more or said.finish in CUT_SHORT, (
                        f"one run ended ({said.finish}) after {k} tokens where the other went on"
                    )
                if not any(goes_on) and other.finish not in CUT_SHORT:
                    assert reference.finish is other.finish
                return Comparison(k, None, noise)
            allowed = self.index.allowed(rest) if rest else None
            mine, x = self._chosen(reference, k, path, reference_rows, allowed)
            theirs, y = self._chosen(other, k, path, other_rows, allowed)
            differences = [np.abs(m - t).max() for m in mine for t in theirs]
            noise = max(noise, *map(float, differences))
            if x != y:
                gap = self._gap(x, y, mine, theirs, allowed, noise, k)
                return Comparison(k, gap, noise)
            if x in self.vocab.stop_tokens:
                assert reference.finish is other.finish is FinishReason.STOP
                return Comparison(k, None, noise)
            path, rest = (*path, x), rest[len(self.vocab.pieces[x]) :]
        raise AssertionError("a run chose more tokens than it has")

    @staticmethod
    def _goes_on(said: Said, k: int) -> bool:
        return k < len(said.tokens) or (k == len(said.tokens) and said.finish is FinishReason.STOP)

    def _chosen(
        self, said: Said, k: int, path: Path, rows: Rows, allowed: NDArray[np.int64] | None
    ) -> tuple[list[Logits], int]:
        """The token a run chose behind `path`, and the rows it may have been chosen from."""
        known = rows.get(path, [])
        assert known, f"token {k} was chosen without logits of the tokens before it"
        if k < len(said.tokens):
            token = said.tokens[k]
        else:
            token = next((t for t in (best(row, allowed)[0] for row in known) if t in self.vocab.stop_tokens), -1)
        fitting = [row for row in known if best(row, allowed)[0] == token]
        assert fitting, f"token {k} is not the best of any logits of the tokens before it"
        return fitting, token

    @staticmethod
    def _gap(
        x: int, y: int, mine: list[Logits], theirs: list[Logits], allowed: NDArray[np.int64] | None, noise: float, k: int
    ) -> float:
        assert any(best(row, allowed)[1] == y for row in mine), f"token {k}: the other's choice is not the reference's second"
        assert any(best(row, allowed)[1] == x for row in theirs), f"token {k}: the reference's choice is not the other's second"
        gap = min(float(row[x] - row[y]) for row in mine)
        assert gap <= min(2 * noise, MAX_GAP), f"token {k}: no near tie, the gap is {gap:.3f} and the noise {noise:.3f}"
        return gap


def best(logits: Logits, allowed: NDArray[np.int64] | None) -> tuple[int, int]:
    """The best token and the second best; -1 if only one is allowed."""
    scores = logits if allowed is None else logits[allowed]
    first = int(np.argmax(scores))
    if len(scores) < 2:
        return int(allowed[first]) if allowed is not None else first, -1
    others = scores.copy()
    others[first] = -np.inf
    second = int(np.argmax(others))
    return (first, second) if allowed is None else (int(allowed[first]), int(allowed[second]))


@dataclass(frozen=True)
class Ran:
    said: dict[int, Said]
    rows: Rows


def run_cold(make: Callable[[Rows], Driver], requests: Iterable[GenerationRequest]) -> Ran:
    """Each request alone, on an engine that holds nothing. make: a driver with empty cells that records into the given rows."""
    said: dict[int, Said] = {}
    rows: Rows = {}
    for request in requests:
        driver = make(rows)
        driver.submit(request)
        driver.drain()
        said[request.request_id] = driver.said(request.request_id)
    return Ran(said, rows)


@dataclass(frozen=True)
class Share:
    """How many of n requests part from the reference: with reuse, and between two cold runs with different chunks."""

    n: int
    n_reused: int
    n_cold: int
    p: float
    noise: float

    def __str__(self) -> str:
        return (
            f"of {self.n} texts {self.n_reused} part with reuse, {self.n_cold} between two cold runs "
            f"(sign test p = {self.p:.2f}, largest logit difference {self.noise:.3f})"
        )


def share(comparer: Comparer, reference: Ran, cold: Ran, reused: Ran) -> Share:
    """Compare both runs with the reference, request by request."""
    n_only_reused = n_only_cold = n_reused = n_cold = 0
    noise = 0.0
    for request_id, said in reference.said.items():
        a = comparer.compare(said, reused.said[request_id], reference.rows, reused.rows)
        b = comparer.compare(said, cold.said[request_id], reference.rows, cold.rows)
        noise = max(noise, a.noise, b.noise)
        n_reused, n_cold = n_reused + a.parted, n_cold + b.parted
        n_only_reused += a.parted and not b.parted
        n_only_cold += b.parted and not a.parted
    return Share(len(reference.said), n_reused, n_cold, sign_test(n_only_reused, n_only_cold), noise)


def sign_test(n_more: int, n_fewer: int) -> float:
    """Probability of n_more or more out of both by chance alone (one-sided)."""
    n = n_more + n_fewer
    return sum(math.comb(n, k) for k in range(n_more, n + 1)) / 2**n
