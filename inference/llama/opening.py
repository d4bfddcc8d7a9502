"""From settings to a loaded engine: check the file, load it, learn what this machine needs. Blocking.

Failures are EngineErrors whose message says what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from inference.backend import Vocab
from inference.config import EngineConfig
from inference.costs import CostTable
from inference.drafts.chunks import CHUNK_BYTES, Chunks
from inference.engine import Engine
from inference.llama.draft import make_drafting, open_draft
from inference.llama.imprint import open_archive
from inference.llama.model import LlamaBackend
from inference.llama.offload import look_at_offload
from inference.llama.room import Room, plan_room
from inference.llama.timing import keeping, key_of, measured_for
from inference.memory_plan import following
from inference.memory_report import MemoryReport, describe, notice, taken
from inference.models.draft_choice import AUTO, locate_draft, refusal
from inference.models.gguf import check
from inference.threads import ThreadCount
from inference.types import Costs, EngineError, NoRoom

_log = logging.getLogger(__name__)
_NO_ROOM = "there is no memory for it beside the model"


def open_engine(
    config: EngineConfig,
    path: Path,
    cache_dir: Path,
    on_progress: Callable[[float], None] | None = None,
    *,
    name: str = "",
    digest: str = "",
    on_memory: Callable[[MemoryReport], None] = lambda report: None,
    chunks: Chunks | None = None,
) -> tuple[Engine, Vocab]:
    """Load the model at `path`, with less than the settings ask for where memory leaves no choice.

    on_progress: share of the weights loaded, 0 to 1, called from this thread. name: of the model, in sentences. on_memory: is
    told the plan, and then what came of it. digest: of the model's file, if it is known already. chunks: texts
    to draft from, that others put in; None: none but those of clients in this process. EngineError.
    """
    check(path)
    wanted = _draft_path(config, path, name)
    backend, config, report, draft = _load(config, path, name, on_progress, on_memory, wanted.path)
    try:
        key = key_of(config, backend, path)
        measured, is_kept = measured_for(config, backend, key, cache_dir)
        beside = open_draft(config, draft, backend, cache_dir)
    except BaseException:
        backend.close()
        raise
    beside = replace(beside, why_not=wanted.why_not, notice=wanted.why_not) if wanted.why_not else beside
    if wanted.path is not None and draft is None:
        beside = replace(beside, why_not=_NO_ROOM, notice=refusal(wanted.path.stem, _NO_ROOM))
    if beside.backend is not None or beside.notice:
        notices = (*report.notices, *([beside.notice] if beside.notice else []))
        on_memory(replace(report, actual=taken((*backend.buffers, *beside.buffers)), notices=notices))
    n_threads = config.n_threads or (measured.n_threads if measured else 1)
    backend.set_threads(n_threads)
    costs = Costs(
        config.prefill_ms_per_token or (measured.prefill_ms_per_token if measured else 1.0),
        config.step_ms or (measured.step_ms if measured else 1.0),
        on_cpu=backend.on_cpu,
    )
    _log.info("%s: %.1f ms per prompt token, %.1f ms per step", path.name, costs.prefill_ms_per_token, costs.step_ms)
    # costs that somebody set are to be relied on: then nothing is sized by what is measured
    is_set = bool(config.prefill_ms_per_token or config.step_ms)
    table = CostTable(costs, () if measured is None or is_set else measured.rows)

    engine = Engine(
        backend,
        n_ctx=backend.n_ctx_seq,
        n_sequences=config.n_sequences,
        costs=costs,
        table=table,
        threads=ThreadCount(n_threads, backend.set_threads, table) if backend.on_cpu and table.is_measured else None,
        chunk_ms=config.chunk_ms,
        background_rows=config.background_rows,
        n_stowed=config.n_stowed if backend.can_stow else 0,
        stow_bytes=config.stow_bytes,
        archive=open_archive(config, backend, path, cache_dir, digest),
        save_every_s=config.save_every_s,
        make_drafting=make_drafting(config, beside, backend.n_ctx_seq, Chunks(CHUNK_BYTES) if chunks is None else chunks),
        on_end=keeping(measured, is_kept, key, cache_dir),
    )
    return engine, backend.vocab


def _load(
    config: EngineConfig,
    path: Path,
    name: str,
    on_progress: Callable[[float], None] | None,
    on_memory: Callable[[MemoryReport], None],
    draft: Path | None,
) -> tuple[LlamaBackend, EngineConfig, MemoryReport, Path | None]:
    """The backend, the settings that it was loaded with, the plan and what was taken, and the draft if there is room for it."""
    room, draft = _room(config, path, name, draft)
    on_memory(MemoryReport(room.plan, notices=room.notices))
    room.require()
    _log.info("memory: %s", describe(room.plan))
    for sentence in room.notices:
        if sentence != room.about_devices:  # the backend says that itself
            _log.warning("%s", sentence)
    further = following(room.sizes, room.config, room.plan)
    plan, told = room.plan, room.notices
    while True:
        applied = plan.applied(room.config)
        try:
            backend = _backend(applied, path, on_progress)
        except NoRoom as error:
            _log.warning("%s", error)
            lower = next(further, None)
            if lower is None:
                raise
            plan = lower
            sentence = notice(plan, room.config)
            told = tuple(dict.fromkeys((*room.notices, *([sentence] if sentence else []))))
            continue
        report = MemoryReport(plan, taken(backend.buffers), told)
        _log.info("memory: %.1f MB were planned, llama.cpp took %.1f", report.planned_bytes / 1e6, report.actual_bytes / 1e6)
        on_memory(report)
        return backend, applied, report, draft


@dataclass(frozen=True, slots=True)
class _Wanted:
    path: Path | None = None
    why_not: str = ""


def _draft_path(config: EngineConfig, path: Path, name: str) -> _Wanted:
    """The file of a draft model. Left open, there is one only where the model's layers lie on a device: on a CPU a step of a
    few rows costs so much more than one of one row that a draft of a third of the model's size can't pay."""
    if config.draft_model == AUTO and not look_at_offload(config).devices:
        return _Wanted()
    try:
        return _Wanted(locate_draft(config, path, name))
    except EngineError as error:
        return _Wanted(why_not=str(error))


def _room(config: EngineConfig, path: Path, name: str, draft: Path | None) -> tuple[Room, Path | None]:
    """The plan with the draft, if that takes nothing from the model; else without."""
    if draft is not None:
        try:
            room = plan_room(config, path, name, draft=draft)
        except EngineError:
            return plan_room(config, path, name), draft  # what is wrong with the file is told when it is opened
        if room.plan.fits and not room.plan.is_paged and not room.plan.lowered:
            return room, draft
    return plan_room(config, path, name), None


def _backend(config: EngineConfig, path: Path, on_progress: Callable[[float], None] | None) -> LlamaBackend:
    try:
        return LlamaBackend(config, path, on_progress=on_progress)
    except MemoryError:
        raise NoRoom(f"There is no memory left for {path}; end other programs, or choose a smaller model.") from None
