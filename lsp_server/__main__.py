"""The command `midfill`: which sub-command, where logs go, and that nobody sees a traceback.

Owns argv, logging to standard error and the exit codes (0 done, 1 not possible, 2 wrong use or installation, 130 interrupted).
Loads only the sub-command that was asked for, so that `midfill --version` is quick.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lsp_server.wire.address import Address

LOG_VARIABLE = "MIDFILL_LOG"
_ROOMS = ("context", "inference", "lsp_server")
_LEVELS = ("debug", "info", "warning", "error")

# name: (module with add_parser(subparsers) and run(args) -> int, one line of help)
_COMMANDS = {
    "lsp": ("", "the language server, over standard input and output or TCP"),
    "complete": ("lsp_server.commands.cli", "one completion at PATH:LINE:COLUMN"),
    "explain": ("lsp_server.commands.cli", "the prompt for PATH:LINE:COLUMN, piece by piece"),
    "demo": ("lsp_server.commands.cli", "complete a few files in several languages, with timings"),
    "engine": ("lsp_server.commands.engine", "the engine that all windows share: run it, see it, stop it"),
    "doctor": ("lsp_server.doctor.command", "check the installation, the engine, the model and this machine"),
    "models": ("lsp_server.commands.models", "list, pull and check models"),
    "cache": ("lsp_server.commands.cache", "show and remove prompts that are saved on disk"),
}

log = logging.getLogger("midfill")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command and return its exit code. (`lsp` ends the process itself.)"""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_missing_streams()
    try:
        _set_up_logging("info" if "lsp" in arguments[:1] else "warning")
        check_installation()
        return _run(arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `midfill … | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains when it flushes at the end
        return 1
    except Exception as error:
        log.debug("details", exc_info=True)
        _complain(_sentence(error))
        return 2 if isinstance(error, ForeignRoomError) else 1


class ForeignRoomError(Exception):
    """One of our packages is somebody else's."""


def check_installation() -> None:
    """The rooms have common names: make sure that they are the ones this distribution came with."""
    home = Path(__file__).resolve().parent.parent
    for room in _ROOMS:
        spec = importlib.util.find_spec(room)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or origin.parent.parent != home:
            raise ForeignRoomError(
                f"the package {room!r} is {'missing' if origin is None else 'not the one of midfill'}: "
                "install midfill into an environment of its own (pipx, uv tool or a virtual environment)"
            )


def version() -> str:
    """Of the installed distribution."""
    from importlib import metadata

    try:
        return metadata.version("midfill")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def _run(arguments: list[str]) -> int:
    parser = _parser(arguments)
    args = parser.parse_args(arguments)
    if args.command == "lsp":
        return _serve() if args.tcp is None else _serve_tcp(args.tcp)
    module = importlib.import_module(_COMMANDS[args.command][0])
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that can't show a character
    code: int = module.run(args)
    return code


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    """Only the sub-command in `arguments` brings its own options; of the others the name and one line are known."""
    parser = argparse.ArgumentParser(prog="midfill", description="Local code completion from a model on your own machine.")
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and leave")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    wanted = next((argument for argument in arguments if not argument.startswith("-")), "")
    loaded = _COMMANDS.get(wanted, ("", ""))[0]
    for name, (module, text) in _COMMANDS.items():
        if module and module == loaded:
            continue
        command = subparsers.add_parser(name, help=text)
        if name == "lsp":
            way = command.add_mutually_exclusive_group()
            way.add_argument("--stdio", action="store_true", help="accepted: some editors append it")
            way.add_argument(
                "--tcp",
                type=_address,
                metavar="[HOST:]PORT",
                help="listen there instead, for several editors; without HOST on the loopback; port 0: any that is free",
            )
            command.add_argument("--clientProcessId", help=argparse.SUPPRESS)  # `initialize` tells it, too
    if loaded:
        importlib.import_module(loaded).add_parser(subparsers)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"midfill {version()}\n")
        parser.exit()


def _serve() -> int:
    from lsp_server.engines import spare

    engine = spare.if_needed()  # first of all: it has more to import than this process, and its pipes are its own
    from lsp_server.wire.stdio import claim_stdio, leave, run_to_exit

    pipes = claim_stdio()  # before anything that could print, and before any native library
    try:
        from lsp_server.interpreter import importing

        with importing():
            from lsp_server.app import serve

        run_to_exit(serve(pipes, engine))
    except Exception as error:
        log.debug("details", exc_info=True)
        _complain(_sentence(error))
        leave(1)  # not by returning: the interpreter would wait for threads


def _address(text: str) -> Address:
    from lsp_server.wire.address import parse

    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _serve_tcp(address: Address) -> int:
    from lsp_server.wire.stdio import leave, run_to_exit, withdraw_stdio

    withdraw_stdio()
    try:
        from lsp_server.app import serve_tcp

        run_to_exit(serve_tcp(address))
    except Exception as error:
        log.debug("details", exc_info=True)
        _complain(_sentence(error))
        leave(1)


def _open_missing_streams() -> None:
    """Started without standard output or error: Python then has no stream at all, and the descriptor would go to the next file
    that is opened."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - lives as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _set_up_logging(usual: str) -> None:
    wanted = os.environ.get(LOG_VARIABLE, "").lower() or usual
    level = wanted if wanted in _LEVELS else usual
    logging.raiseExceptions = False  # a closed standard error is no reason to write more to it
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s", level=level.upper())
    for noisy in ("asyncio", "urllib3"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    if level != wanted:
        log.warning("%s is %r; it can be %s", LOG_VARIABLE, wanted, ", ".join(_LEVELS))


def _sentence(error: Exception) -> str:
    """What to tell the user. Errors made for people speak for themselves, others are told by type."""
    from inference.types import EngineError

    if isinstance(error, (EngineError, ForeignRoomError)):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"an unexpected error ({type(error).__name__}); {LOG_VARIABLE}=debug shows where"


def _complain(sentence: str) -> None:
    sys.stderr.write(f"midfill: {sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
