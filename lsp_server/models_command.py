"""`midfill models list | pull ID | verify ID | path ID`.

Owns the sub-command: its arguments, its output, its exit status (0 done, 1 not possible, 130 interrupted). Refuses the work
itself, which is `inference.models`'.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from inference.models import fetch, registry, store
from inference.models.registry import Model
from inference.models.store import Entry, OnProgress, Progress, State
from inference.types import EngineError
from lsp_server.config import default_sources, load

INTERRUPTED = 130  # what shells expect after Ctrl-C
_HEAD = ("ID", "SIZE", "LICENCE", "STATE", "PATH")
_PLAIN_STEP = 10  # per cent between two lines, where the output is not a terminal


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Adds `models` to the sub-commands of `midfill` (what `ArgumentParser.add_subparsers` gave)."""
    parser: argparse.ArgumentParser = subparsers.add_parser("models", help="list, pull and check models")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--models-dir", default="", metavar="DIR", help="where models are kept")
    actions = parser.add_subparsers(dest="models_action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", parents=[shared], help="the known models, and which are on disk")
    listing.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    for name, text in (
        ("pull", "get a model; goes on with what an interrupted pull left"),
        ("verify", "compare every byte of a model with its published digest"),
        ("path", "print where a model lies"),
    ):
        action = actions.add_parser(name, parents=[shared], help=text)
        action.add_argument("id", metavar="ID", help="as in `midfill models list`")
    return parser


def run(args: argparse.Namespace, *, setting: str | None = None) -> int:
    """Do what was asked for; the exit status. setting: `models_dir`, used where no option says other; None = as configured."""
    if setting is None:
        setting = load(default_sources())[0].engine.models_dir
    directory = store.models_dir(args.models_dir or setting)
    try:
        if args.models_action == "list":
            _list(directory, as_json=args.json)
            return 0
        model = registry.find(args.id)
        if args.models_action == "pull":
            return _pull(model, directory)
        if args.models_action == "verify":
            with _shown() as progress:
                path = store.verify(model, directory, progress)
            _say(f"{model.id}: good, every byte of {path}")
        else:
            _say(str(store.resolve(model.id, directory)))
    except EngineError as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    return 0


def _pull(model: Model, directory: Path) -> int:
    try:
        with _shown() as progress:
            path = fetch.pull(model, directory, progress=progress)
    except KeyboardInterrupt:
        _complain(f"interrupted; the next `midfill models pull {model.id}` goes on from here")
        return INTERRUPTED
    _say(f"{model.id}: {path}")
    return 0


def _list(directory: Path, *, as_json: bool) -> None:
    entries = store.entries(directory)
    if as_json:
        _say(json.dumps({"models_dir": str(directory), "models": [_as_json(entry) for entry in entries]}, indent=2))
        return
    rows = [_HEAD, *(_as_row(entry) for entry in entries)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    for row in rows:
        _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _as_row(entry: Entry) -> tuple[str, ...]:
    model = entry.model
    state = str(entry.state)
    if entry.state is State.PARTIAL:
        state += f" ({100 * entry.n_bytes // model.bytes} %)"
    return (model.id, f"{model.bytes / 1e6:,.0f} MB", model.licence, state, str(entry.path))


def _as_json(entry: Entry) -> dict[str, object]:
    model = entry.model
    return {
        "id": model.id,
        "title": model.title,
        "bytes": model.bytes,
        "sha256": model.sha256,
        "licence": model.licence,
        "family": model.family,
        "on_disk": entry.state is State.PRESENT,
        "state": str(entry.state),
        "bytes_on_disk": entry.n_bytes,
        "path": str(entry.path),
    }


@contextmanager
def _shown() -> Iterator[OnProgress]:
    """Progress on standard error: a bar on a terminal, lines at whole steps elsewhere."""
    shown: _Bar | _Lines = _Bar() if sys.stderr.isatty() else _Lines()
    try:
        yield shown
    finally:
        shown.close()


class _Bar:
    def __init__(self) -> None:
        self._phase = ""
        self._bar: tqdm[Any] | None = None

    def __call__(self, progress: Progress) -> None:
        if self._bar is None or progress.phase != self._phase:
            self.close()
            self._phase = progress.phase
            self._bar = tqdm(
                total=progress.n_total_bytes,
                initial=progress.n_bytes,
                unit="B",
                unit_scale=True,
                desc=progress.phase,
                file=sys.stderr,
            )
        self._bar.set_postfix_str(progress.note, refresh=False)
        self._bar.update(progress.n_bytes - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Lines:
    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, progress: Progress) -> None:
        step = 100 * progress.n_bytes // max(progress.n_total_bytes, 1) // _PLAIN_STEP
        if (progress.phase, step) == self._last:
            return
        self._last = (progress.phase, step)
        note = f", {progress.note}" if progress.note else ""
        mega = f"{progress.n_bytes / 1e6:,.0f} of {progress.n_total_bytes / 1e6:,.0f} MB"
        sys.stderr.write(f"{progress.phase}: {step * _PLAIN_STEP} % ({mega}{note})\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Every line is complete already."""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _complain(sentence: str) -> None:
    sys.stderr.write(f"midfill: {sentence}\n")
