"""What an engine holds and has done, put together from its parts. Cheap, and for any thread."""

from __future__ import annotations

from collections.abc import Sequence

from inference.drafts.drafting import Drafting
from inference.kv_cache import KvCache
from inference.prompt_cache.archive import Figures
from inference.prompt_cache.keeper import Keeper
from inference.run import Run
from inference.tally import Tally
from inference.threads import ThreadCount
from inference.types import EngineStats, Priority


def stats_of(
    runs: Sequence[Run],
    arrived: Sequence[Priority],
    kv: KvCache,
    n_cells: int,
    tally: Tally,
    keeper: Keeper | None,
    drafting: Drafting | None,
    threads: ThreadCount,
) -> EngineStats:
    """arrived: priorities of requests that the engine has not taken yet."""
    sequences, stowed = kv.sequences, kv.stowage.all
    running = list({run.request_id: run.priority for run in runs if run.sequence is not None}.values())
    waiting = [*(run.priority for run in runs if run.sequence is None), *arrived]
    saved = Figures() if keeper is None else keeper.figures
    return EngineStats(
        waiting=tuple(waiting.count(p) for p in Priority),
        running=tuple(running.count(p) for p in Priority),
        n_resident=sum(bool(s.tokens) for s in sequences),
        n_resident_tokens=sum(len(s.tokens) for s in sequences),
        n_used_cells=kv.n_used(),
        n_cells=n_cells,
        n_stowed=len(stowed),
        n_stowed_tokens=sum(len(s.tokens) for s in stowed),
        stowed_bytes=sum(s.n_bytes for s in stowed),
        stow_limit_bytes=kv.stowage.max_bytes,
        counters=tally.counters,
        claims=tally.claims,
        n_stows=kv.n_stows,
        n_restores=kv.n_restores,
        n_evictions=kv.n_evictions,
        n_set_aside=tally.n_set_aside,
        n_aborted_steps=tally.n_aborted_steps,
        n_saved=saved.n_entries,
        saved_bytes=saved.n_bytes,
        save_limit_bytes=saved.limit_bytes,
        n_saves=saved.n_writes,
        written_bytes=saved.written_bytes,
        saves_skipped=saved.skipped,
        n_disk_hits=0 if keeper is None else keeper.restorer.n_hits,
        disk_misses=() if keeper is None else keeper.restorer.misses,
        n_discarded=saved.n_discarded,
        why_not_saving=saved.why_off,
        drafts=() if drafting is None else drafting.figures,
        n_chunks=0 if drafting is None else len(drafting.chunks),
        chunk_bytes=0 if drafting is None else drafting.chunks.n_bytes,
        why_no_draft_model="" if drafting is None else drafting.why_not_computed,
        n_threads=threads.n,
        n_threads_most=threads.most,
    )
