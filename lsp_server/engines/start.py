"""From arguments and settings to an engine's process, ready to run.

Owns what the engine says of itself to those who find it, and where it listens. The weights are being loaded from here on, in a
thread, while what serves them is imported.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from inference.backend import Vocab
from inference.config import EngineConfig
from inference.drafts.chunks import CHUNK_BYTES, Chunks
from inference.endpoint import make_key, read_key
from inference.engine import Engine
from inference.engine_host import ModelHost
from inference.engine_record import EngineRecord, own_start
from inference.engine_settings import settings_of
from inference.memory_report import MemoryBoard
from inference.models.choice import Located, locate
from inference.models.identity import ModelFile, identify
from inference.runtime_dir import Place, place_of, runtime_dir
from inference.types import EngineError
from lsp_server.__main__ import version
from lsp_server.config import Config
from lsp_server.dirs import cache_dir as usual_cache_dir

if TYPE_CHECKING:
    from inference.serve.process import Process, Where


@dataclass(frozen=True, slots=True)
class Started:
    process: Process
    host: ModelHost
    place: Place


async def prepare(args: argparse.Namespace, config: Config, on_end: Callable[[str], None]) -> Started:
    """on_end: told why, when the process begins to end. EngineError: there is no such model, or no key."""
    cache_dir = Path(args.cache_dir) if args.cache_dir else usual_cache_dir()
    located, model = await asyncio.to_thread(_found, args, config, cache_dir)
    engine = config.engine
    record = EngineRecord(
        pid=os.getpid(),
        started=own_start(),
        version=version(),
        model_name=located.name,
        model_path=str(model.path),
        model_digest=model.digest,
        asked=args.asked or engine.model,
        models_dir=args.models_dir or engine.models_dir,
        is_background=args.background,
    )
    chunks = Chunks(CHUNK_BYTES if engine.drafts != "off" else 0)
    board = MemoryBoard()
    host = ModelHost(
        model,
        located.name,
        settings_of(engine),
        _opener(engine, model, cache_dir, located.name, board, chunks),
        lambda: _vocabulary(model.path),
        notices=(located.notice,) if located.notice else (),
        memory=board,
        unload_s=engine.unload_s,
        on_leases=lambda n: process.on_leases(n),
    )
    host.start()
    await asyncio.sleep(0)  # it begins

    from inference.serve.process import Process

    where = _where(args, model)
    process = Process(record, where, engine.linger_s if args.background else None, on_end, chunks=chunks)
    return Started(process, host, where.place)


def _found(args: argparse.Namespace, config: Config, cache_dir: Path) -> tuple[Located, ModelFile]:
    if args.background:
        located = Located(Path(args.model), args.name)
    else:
        located = locate(config.engine, config.server.reply_deadline_ms, cache_dir)
        from inference.llama.room import smaller_if_needed  # native code: only once the file is there

        located = smaller_if_needed(located, config.engine)
    model = identify(located.path.absolute())
    if args.digest and model.digest != args.digest:
        raise EngineError(f"{model.path} has changed since it was looked for; run midfill.restartEngine.")
    return located, model


def _where(args: argparse.Namespace, model: ModelFile) -> Where:
    from inference.serve.process import Where

    if args.host is None:
        return Where(place_of(model.digest), is_loopback=args.loopback)
    path = Path(args.api_key_file).expanduser().absolute()
    key = read_key(path) if path.exists() else make_key(path)
    host, port = args.host
    return Where(Place(runtime_dir(), f"host-{os.getpid()}"), host, port, key, str(path))


def _opener(
    config: EngineConfig, model: ModelFile, cache_dir: Path, name: str, board: MemoryBoard, chunks: Chunks
) -> Callable[[Callable[[float], None]], tuple[Engine, Vocab]]:
    def open_it(on_progress: Callable[[float], None]) -> tuple[Engine, Vocab]:
        from inference.llama.opening import open_engine

        known = {"name": name, "digest": model.digest}
        return open_engine(config, model.path, cache_dir, on_progress, **known, on_memory=board.take, chunks=chunks)

    return open_it


def _vocabulary(path: Path) -> Vocab:
    from inference.llama.vocab import load_vocab

    return load_vocab(path)
