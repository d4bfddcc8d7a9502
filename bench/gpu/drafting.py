"""Speculative decoding of large shapes with acceptance simulated: `python -m bench.gpu.drafting [--target 32B] [--draft 0.5B]`.

Both models have random weights, so their text is noise and no draft of it would hold. Every step of both is made, with its real
rows; only what the target would have chosen is decided by a seeded coin, which lets a drafted token stand at the rate of its
position: those in `rates.json` beside this file, which `python -m bench.speculation --rates FILE` measures for a real pair, or
`--rates`. What is said of the result is named as simulated. The controller decides from tables that are measured here, and the
draft's confidence is left out, since noise has none. A text that is not counted comes first: the controller lives as long as an
engine, and begins with nothing to spend.

    speedup = time without drafts ÷ time with, the median of pairs that are run in turns
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
from numpy.typing import NDArray

from bench.errors import BenchError
from bench.gpu.random_model import SHAPES, write
from bench.results import median
from inference.backend import Outcome, Row, Vocab
from inference.costs import CostTable
from inference.drafts.drafting import Drafting
from inference.drafts.model import DraftModel
from inference.engine import Engine
from inference.healing import HealingIndex
from inference.types import Costs, EngineError, GenerationRequest, TokenEvent

RATES = Path(__file__).with_name("rates.json")
_FIRST, _N_TEXT = 10, 200  # ids that stand for text


@dataclass
class Tossed:
    """A target whose choices are a coin's where a token was drafted. Passes everything else through; stays open."""

    backend: Any
    rates: Sequence[float]
    seed: int
    n_steps: int = 0
    _rows: list[Row] = field(default_factory=list)
    _choices: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def decode(self, rows: Sequence[Row]) -> Outcome:
        self.n_steps += 1
        self._rows, self._choices = list(rows), {}
        outcome: Outcome = self.backend.decode(rows)
        position = 0
        for i, row in enumerate(self._rows):
            after = self._rows[i + 1] if i + 1 < len(self._rows) else None
            if not row.wants_logits:
                continue
            usual = _FIRST + (row.pos * 7919) % _N_TEXT
            if after is None or after.seq != row.seq:
                self._choices[i], position = usual, 0
                continue
            rate = self.rates[min(position, len(self.rates) - 1)]
            stands = self._rng.random() < rate
            self._choices[i] = after.token if stands else _FIRST + (after.token + 1 - _FIRST) % _N_TEXT
            position += 1
        return outcome

    def logits(self, i: int) -> NDArray[np.float32]:
        """Of as many tokens as there are, so that choosing costs what it costs."""
        real = self.backend.logits(i)
        made = np.zeros(len(real), dtype=np.float32)
        made[self._choices[i]] = 1.0
        return made

    def close(self) -> None:
        return


class _Lent:
    """A draft that stays open, drafts ids of text only, so that nothing of it ends a text, and is sure of each."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def logits(self, i: int) -> NDArray[np.float32]:
        real: NDArray[np.float32] = self._backend.logits(i)
        made = np.full(len(real), -1e9, dtype=np.float32)
        made[_FIRST + int(np.argmax(real[_FIRST : _FIRST + _N_TEXT]))] = 0.0
        return made

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Simulated:
    """step_ms: of one row, target and draft. accepted: of the drafted tokens; per_step: tokens that a step of the target has
    brought. is_simulated: always, beside every number."""

    target: str
    draft: str
    step_ms: tuple[float, float]
    rates: tuple[float, ...]
    speedup: float
    accepted: float
    per_step: float
    is_simulated: bool = True


def simulate(target: Any, draft: Any, tables: tuple[CostTable, CostTable], names: tuple[str, str], *, rates: Sequence[float],
             n_tokens: int, n_prompt: int, n_pairs: int) -> Simulated:  # fmt: skip
    """In this process, with both models loaded."""
    ratios, accepted, per_step = [], 0.0, 1.0
    for i in range(n_pairs):
        seconds = {}
        for with_drafts in (True, False) if i % 2 else (False, True):
            for backend in (target, draft):
                for seq in range(backend.n_seq_max):
                    backend.truncate(seq, 0)
            tossed = Tossed(target, rates, seed=i)

            def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
                model: Any = DraftModel(_Lent(draft), tables[1], healing, n_ctx=draft.n_ctx_seq, confident=0.0)
                return Drafting(vocab, table, healing, sources=(), computed=model)

            engine = Engine(
                tossed, n_ctx=target.n_ctx_seq, n_sequences=1, costs=tables[0].costs, table=tables[0],
                make_drafting=make if with_drafts else None,
            )  # fmt: skip
            tokens = tuple(_FIRST + k % _N_TEXT for k in range(n_prompt))
            _drain(engine, GenerationRequest(1, tokens[::-1], n_max=n_tokens))
            _drain(engine, GenerationRequest(2, tokens, n_max=0))
            n_before, began = tossed.n_steps, time.perf_counter()
            last = _drain(engine, GenerationRequest(3, tokens, n_max=n_tokens))
            seconds[with_drafts] = time.perf_counter() - began
            if with_drafts:
                accepted = last.stats.n_accepted / max(1, last.stats.n_drafted)
                per_step = n_tokens / max(1, tossed.n_steps - n_before)
        ratios.append(seconds[False] / seconds[True])
    steps = (tables[0].cost(1), tables[1].cost(1))
    return Simulated(*names, steps, tuple(rates), round(median(ratios) or 0.0, 3), round(accepted, 3), round(per_step, 2))


def _drain(engine: Engine, request: GenerationRequest) -> TokenEvent:
    events: list[TokenEvent] = []
    engine.submit(request, events.append)
    while not events or events[-1].finish is None:
        engine.step()
    return events[-1]


def read_rates(path: Path) -> tuple[float, ...]:
    """By position. BenchError: there are none."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return _shares(told["positions"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(
            f"{path} has no rates ({error}); measure a real pair: python -m bench.speculation --model qwen2.5-coder-1.5b "
            f"--draft qwen2.5-coder-0.5b --rates {path}"
        ) from None


def run(options: argparse.Namespace) -> Simulated:
    from inference.config import EngineConfig
    from inference.llama.model import LlamaBackend
    from inference.measure import measure

    rates = options.rates or read_rates(RATES)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        loaded: list[Any] = []
        tables: list[CostTable] = []
        for name in (options.target, options.draft):
            path = write(Path(folder) / f"{name}-{len(loaded)}.gguf", SHAPES[name], "Q4_K")
            loaded.append(LlamaBackend(EngineConfig(n_ctx=options.n_ctx, n_sequences=1), path))
            measured = measure(loaded[-1], (loaded[-1].n_threads,))
            tables.append(CostTable(Costs(measured.prefill_ms_per_token, measured.step_ms), measured.rows))
        try:
            return simulate(
                loaded[0], loaded[1], (tables[0], tables[1]), (options.target, options.draft), rates=rates,
                n_tokens=options.tokens, n_prompt=min(512, options.n_ctx // 2), n_pairs=options.pairs,
            )  # fmt: skip
        finally:
            for backend in loaded:
                backend.close()


def _rates(text: str) -> tuple[float, ...]:
    return _shares(text.split(","))


def _shares(words: Sequence[Any]) -> tuple[float, ...]:
    values = tuple(float(word) for word in words)
    if not values or not all(0 <= value <= 1 for value in values):
        raise ValueError("expected shares between 0 and 1, by position")
    return values


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m bench.gpu.drafting", description="Drafts of large shapes, simulated.")
    made.add_argument("--target", default="32B", choices=list(SHAPES))
    made.add_argument("--draft", default="0.5B", choices=list(SHAPES))
    made.add_argument("--rates", type=_rates, help="how often a drafted token stands, by position; else as measured")
    made.add_argument("--tokens", type=int, default=256)
    made.add_argument("--pairs", type=int, default=7)
    made.add_argument("--n-ctx", type=int, default=2048)
    made.add_argument("--folder", help="where models are written; they are removed again")
    made.add_argument("--json", action="store_true")
    return made


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    try:
        made = run(options)
    except (BenchError, EngineError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(asdict(made)))
        return 0
    target, draft = made.step_ms
    print(f"simulated acceptance: {made.target} ({target:.2f} ms a step) with drafts of {made.draft} ({draft:.2f} ms)")
    print(f"  {made.speedup:.2f} times as fast; {made.accepted:.0%} accepted, {made.per_step:.2f} tokens a step")
    return 0


if __name__ == "__main__":
    sys.exit(main())
