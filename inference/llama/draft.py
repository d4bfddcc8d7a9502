"""A draft model of llama.cpp beside its target: loaded, compared, measured; and with the other sources what the engine drafts
with.

Owns what becomes of it: a draft that can't be had, or does not fit, is named with the reason, and the model runs without it.
Refuses to choose the file (`inference.models.draft_choice`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from inference.backend import Vocab
from inference.config import EngineConfig
from inference.costs import CostTable
from inference.drafts.chunks import Chunks
from inference.drafts.compatible import why_not_compatible
from inference.drafts.drafting import Drafting
from inference.drafts.model import DraftModel
from inference.engine import MakeDrafting
from inference.healing import HealingIndex
from inference.llama.buffers import Buffer
from inference.llama.imprint import open_archive
from inference.llama.model import LlamaBackend
from inference.llama.timing import keeping, key_of, measured_for
from inference.models.draft_choice import refusal
from inference.models.gguf import check
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.partner import Partner
from inference.types import Costs, EngineError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beside:
    """A draft model that is loaded, or why there is none. notice: the same as a sentence for the user; both "" if none was
    asked for. buffers: what it took. archive: its saved states, started. keep: to be told its table at the end."""

    backend: LlamaBackend | None = None
    table: CostTable | None = None
    why_not: str = ""
    notice: str = ""
    buffers: tuple[Buffer, ...] = ()
    archive: Archive | None = None
    keep: Callable[[CostTable], None] = lambda table: None


def open_draft(config: EngineConfig, path: Path | None, target: LlamaBackend, cache_dir: Path) -> Beside:
    """config: the target's, as it was loaded. path: the draft's file; None: none is wanted."""
    if path is None:
        return Beside()
    backend: LlamaBackend | None = None
    try:
        check(path)
        settings = _settings(config)
        backend = LlamaBackend(settings, path)
        why = why_not_compatible(target.vocab, backend.vocab) or why_not_usable(target, backend)
        if not why:
            table, keep = _table(settings, backend, path, cache_dir)
            archive = open_archive(settings, backend, path, cache_dir) if target.can_stow else None
            return Beside(backend, table, buffers=backend.buffers, archive=archive, keep=keep)
    except (EngineError, OSError, MemoryError) as error:
        why = str(error).rstrip(".") or "there is no memory for it"
    if backend is not None:
        backend.close()
    sentence = refusal(path.stem, why)
    _log.warning("%s", sentence)
    return Beside(why_not=why, notice=sentence)


def why_not_usable(target: LlamaBackend, draft: LlamaBackend) -> str:
    if not target.can_roll_back:
        return "the model's cache can't drop a part of a sequence, so nothing can be drafted for it"
    return "" if draft.can_roll_back else "its cache can't drop a part of a sequence"


def _settings(config: EngineConfig) -> EngineConfig:
    """One sequence less: what the background prepares is seldom drafted for. Costs that were set are the target's."""
    return replace(
        config, n_sequences=max(1, config.n_sequences - 1), kv_type="f16", prefill_ms_per_token=0.0, step_ms=0.0,
        explicit=config.explicit - {"n_gpu_layers"},
    )  # fmt: skip


def _table(
    config: EngineConfig, backend: LlamaBackend, path: Path, cache_dir: Path
) -> tuple[CostTable, Callable[[CostTable], None]]:
    """And what is to be told the table at the end."""
    key = key_of(config, backend, path)
    measured, is_kept = measured_for(config, backend, key, cache_dir)
    assert measured is not None  # costs are never set for it
    backend.set_threads(config.n_threads or measured.n_threads)
    table = CostTable(Costs(measured.prefill_ms_per_token, measured.step_ms, on_cpu=backend.on_cpu), measured.rows)
    return table, keeping(measured, is_kept, key, cache_dir)


def make_drafting(config: EngineConfig, beside: Beside, n_ctx: int, chunks: Chunks | None) -> MakeDrafting | None:
    """None: the settings say that nothing is drafted."""
    if config.drafts == "off":
        return None

    def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
        computed = partner = None
        if beside.backend is not None and beside.table is not None:
            computed = DraftModel(beside.backend, beside.table, healing, n_ctx=n_ctx, on_end=beside.keep)
            if beside.archive is not None:
                partner = Partner(beside.archive, computed, beside.backend)
        drafting = Drafting(vocab, table, healing, chunks=chunks, computed=computed)
        drafting.partner, drafting.why_not_computed = partner, beside.why_not
        return drafting

    return make
