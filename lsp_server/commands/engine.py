"""`midfill engine [status | stop]`: run the engine that all windows share, see which run, end them.

Owns the sub-command and how a language server starts one in the background (`command_line`). The engine itself is
`inference.serve.process`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from inference.config import EngineConfig
from inference.models.lock import Held, hold
from inference.spare import await_word
from inference.types import EngineError
from lsp_server.__main__ import LOG_VARIABLE
from lsp_server.config import Config, Sources, default_sources, load
from lsp_server.dirs import cache_dir
from lsp_server.engines.last import keep, last_engine
from lsp_server.engines.spare import begin
from lsp_server.interpreter import importing

if TYPE_CHECKING:
    from inference.engine_record import EngineRecord

_READY = "ready"


def add_parser(subparsers: Any) -> None:
    """Adds `engine` to the sub-commands of `midfill`."""
    engine = subparsers.add_parser("engine", help="the engine that all windows share: run it, see it, stop it")
    engine.add_argument("--model", metavar="ID_OR_PATH", help="instead of the one in the settings")
    engine.add_argument("--host", metavar="HOST:PORT", type=_address, help="serve other machines: listen there, with a key")
    engine.add_argument("--api-key-file", metavar="FILE", help="the key that clients need with --host; made if it is not there")
    for name in ("--background", "--loopback", "--spare"):
        engine.add_argument(name, action="store_true", help=argparse.SUPPRESS)
    for name in ("--asked", "--name", "--digest", "--models-dir", "--settings", "--cache-dir"):
        engine.add_argument(name, default="", help=argparse.SUPPRESS)
    actions = engine.add_subparsers(dest="engine_action", metavar="ACTION")
    status = actions.add_parser("status", help="one line for each engine of yours that runs")
    status.add_argument("--json", action="store_true", help="one JSON object")
    stop = actions.add_parser("stop", help="end an engine; what asks it meanwhile is answered empty")
    stop.add_argument("which", nargs="?", default="", metavar="MODEL_OR_PID", help="needed if several run")
    stop.add_argument("--all", action="store_true", help="all of them")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; the exit status. Raises EngineError."""
    if args.engine_action is not None:
        from lsp_server.commands import engine_status

        if args.engine_action == "status":
            return engine_status.show(in_json=args.json)
        return engine_status.stop(args.which, all_of_them=args.all)
    if args.background:
        return _in_background(args)
    if bool(args.host) != bool(args.api_key_file):
        raise EngineError("--host and --api-key-file belong together: whoever reaches a port may ask, so a key has to be shown")
    if not os.environ.get(LOG_VARIABLE):
        logging.getLogger().setLevel(logging.INFO)
    config, problems = load(default_sources())
    for problem in problems:
        sys.stderr.write(f"midfill: {problem}\n")
    return _run_to_exit(args, _with_model(config, args), lambda sentence: None)


def command_line(
    model: Path, name: str, digest: str, config: EngineConfig, cache_dir: Path, *, loopback: bool = False
) -> list[str]:
    """What starts the engine in the background, with the settings of this server. digest: of the model's file."""
    from inference.engine_settings import given

    words = {
        "--model": str(model), "--name": name, "--digest": digest, "--asked": config.model, "--models-dir": config.models_dir,
        "--settings": json.dumps(given(config)), "--cache-dir": str(cache_dir),
    }  # fmt: skip
    flags = ["--background", *(["--loopback"] if loopback else [])]
    return [*begin(), "engine", *flags, *(f"{option}={value}" for option, value in words.items())]


def _in_background(args: argparse.Namespace) -> int:
    """Leave the process that started us. Standard output is a pipe to it, for one line."""
    if hasattr(os, "fork") and os.fork():
        os._exit(0)  # whoever ends what the editor has started, child by child, does not find the engine
    pipe = os.dup(1)
    os.dup2(2, 1)
    logging.getLogger().setLevel(os.environ.get(LOG_VARIABLE, "info").upper())
    arguments, guess = sys.argv[1:], None
    if args.spare:
        _import_engine()
        guess = _guessed()
        arguments = guess.arguments if guess is not None else _told()
        args = _parsed(arguments)

    is_open = [True]

    def say(line: str) -> None:
        """Once."""
        if not is_open:
            return
        is_open.clear()
        with contextlib.suppress(OSError):  # it is gone: nobody has to know
            os.write(pipe, f"{line}\n".encode())
        os.close(pipe)
        if guess is not None:
            guess.lock.close()
        if line == _READY:
            keep(Path(args.cache_dir) if args.cache_dir else cache_dir(), arguments)

    if guess is not None:
        guess.pipe = pipe
    try:
        config, _ = load(Sources(options=json.loads(args.settings or "{}")))
        return _run_to_exit(args, _with_model(config, args), say, guess)
    except EngineError as error:
        say(str(error))
        raise


def _import_engine() -> None:
    with importing():
        for module in ("lsp_server.engines.start", "inference.llama.opening", "inference.serve.process"):
            importlib.import_module(module)


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers(dest="command"))
    return parser.parse_args(arguments)


def _told() -> list[str]:
    """A spare process's arguments, once it is told them; its standard error is the log from here on. Ends the process if it is
    not needed."""
    from inference.engine_log import open_log

    word = await_word()
    if word is None:
        os._exit(0)
    arguments, path = word
    with open_log(path) as log, open(os.devnull, "rb") as nothing:
        os.dup2(log.fileno(), 2)
        os.dup2(2, 1)
        os.dup2(nothing.fileno(), 0)
    return arguments


@dataclass(slots=True)
class _Guess:
    """A spare process has begun to be the engine that was started last. pipe: to who has started it. lock: as long as it
    loads, no other spare process guesses."""

    arguments: list[str]
    lock: contextlib.ExitStack
    pipe: int = -1

    def confirm(self, *, is_good: bool) -> None:
        """Blocking, until it is told what to be. If that is something else, or the guess did no good: begins anew as that."""
        arguments = _told()
        if arguments != self.arguments or not is_good:
            os.dup2(self.pipe, 1)
            command = [*begin(), *arguments]
            os.execv(command[0], command)


def _guessed() -> _Guess | None:
    if sys.platform == "win32":  # a process can't be exchanged there
        return None
    arguments, lock = last_engine(cache_dir()), contextlib.ExitStack()
    try:
        if arguments is None:
            return None
        args = _parsed(arguments)
        if not Path(args.model).is_file() or not isinstance(json.loads(args.settings or "{}"), dict):
            return None
        lock.enter_context(hold(cache_dir() / "last-engine.lock"))
    except (SystemExit, Held, OSError, ValueError):  # SystemExit: they are another version's
        return None
    return _Guess(arguments, lock)


def _with_model(config: Config, args: argparse.Namespace) -> Config:
    if args.model == "":
        raise EngineError("--model is empty; name a model (`midfill models list`) or a GGUF file")
    return replace(config, engine=replace(config.engine, model=args.model)) if args.model else config


def _run_to_exit(
    args: argparse.Namespace, config: Config, say: Callable[[str], None], guess: _Guess | None = None
) -> NoReturn:
    from lsp_server.wire.stdio import run_to_exit

    run_to_exit(_serve(args, config, say, guess))


async def _serve(args: argparse.Namespace, config: Config, say: Callable[[str], None], guess: _Guess | None) -> int:
    """say: is told "ready" when it listens, or why it can't. guess: to be confirmed before anybody is served."""
    from inference.engine_log import keep_short

    with importing():
        from lsp_server.engines.start import prepare
    from lsp_server.wire.signals import on_signals
    from lsp_server.wire.stdio import Ending, leave

    def refuse(error: EngineError) -> int:
        say(str(error))
        sys.stderr.write(f"midfill: {error}\n")
        return 1

    loop = asyncio.get_running_loop()
    ending = Ending(leave)  # however stuck it is, it ends in time
    on_signals(lambda number: ending.end_from_thread(lambda: 0, f"{signal.Signals(number).name} came"))
    try:
        started = await prepare(args, config, lambda why: ending.end(0, why))
    except EngineError as error:
        if guess is not None:
            await asyncio.to_thread(guess.confirm, is_good=False)
        return refuse(error)
    if guess is not None:
        await asyncio.to_thread(guess.confirm, is_good=True)

    async def end_on_signal() -> None:
        await ending.wait()
        started.process.end("a signal came")

    def listening(record: EngineRecord) -> None:
        say(_READY)
        if not args.background:
            sys.stderr.write(f"midfill: {record.model_name} is served on {record.address}\n")
            sys.stderr.flush()

    tasks = [loop.create_task(end_on_signal())]
    if args.background:
        tasks.append(loop.create_task(keep_short(started.place.log)))
    try:
        await started.process.run(started.host, listening)
    except EngineError as error:
        return refuse(error)
    finally:
        for task in tasks:
            task.cancel()
    return 0


def _address(text: str) -> tuple[str, int]:
    from lsp_server.wire.address import parse

    try:
        address = parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return address.host, address.port
