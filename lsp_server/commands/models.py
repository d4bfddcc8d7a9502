"""`midfill models list | pull ID | add FILE | rm ID | gc | verify ID | path ID`.

Owns the sub-command: its arguments, its output, its exit status (0 done, 1 not possible, 130 interrupted). Refuses the work
itself, which is `inference.models`'.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from inference.models import choice, elsewhere, fetch, housekeeping, records, registry, store
from inference.models.choice import gigabytes
from inference.models.fetch import Origins
from inference.models.housekeeping import Swept
from inference.models.machine import look_at_machine
from inference.types import EngineError
from lsp_server.commands.models_table import Listing, as_json, table
from lsp_server.commands.progress_bar import shown
from lsp_server.config import Config, default_sources, load

INTERRUPTED = 130  # what shells expect after Ctrl-C


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Adds `models` to the sub-commands of `midfill` (what `ArgumentParser.add_subparsers` gave)."""
    parser: argparse.ArgumentParser = subparsers.add_parser("models", help="list, pull, add, remove and check models")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--models-dir", default="", metavar="DIR", help="where models are kept")
    actions = parser.add_subparsers(dest="models_action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", parents=[shared], help="the known models, which are on disk, and the automatic choice")
    listing.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    adding = actions.add_parser("add", parents=[shared], help="note a GGUF file under an id; it stays where it is")
    adding.add_argument("file", metavar="FILE")
    adding.add_argument("--id", default="", metavar="ID", dest="new_id", help="instead of one made from the file's name")
    sweeping = actions.add_parser("gc", parents=[shared], help="delete what pulls left, and notes of files that are gone")
    sweeping.add_argument("--dry-run", action="store_true", help="only tell what would be deleted")
    for name, text in (
        ("pull", "get a model; goes on with what an interrupted pull left"),
        ("rm", "delete a model that was pulled; forget one that was added"),
        ("verify", "compare every byte of a model with its digest"),
        ("path", "print where a model lies"),
    ):
        action = actions.add_parser(name, parents=[shared], help=text)
        action.add_argument("id", metavar="ID", help="as in `midfill models list`")
    return parser


def run(args: argparse.Namespace, *, config: Config | None = None) -> int:
    """Do what was asked for; the exit status. config: the settings; None = as they are configured."""
    if config is None:
        config, problems = load(default_sources())
        for problem in problems:
            _complain(problem)
    directory = store.models_dir(args.models_dir or config.engine.models_dir)
    try:
        return _act(args, config, directory)
    except EngineError as error:
        _complain(str(error))
        return 1
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED


def _act(args: argparse.Namespace, config: Config, directory: Path) -> int:
    if args.models_action == "list":
        _list(directory, config, in_json=args.json)
    elif args.models_action == "pull":
        return _pull(args.id, directory, config)
    elif args.models_action == "add":
        _add(args.file, args.new_id, directory)
    elif args.models_action == "rm":
        _tell(housekeeping.remove(args.id, directory), f"{args.id} is removed", "freed")
    elif args.models_action == "gc":
        swept = housekeeping.sweep(directory, is_dry=args.dry_run)
        _tell(swept, "", "would be freed" if args.dry_run else "freed")
    elif args.models_action == "verify":
        _verify(args.id, directory)
    else:
        _say(str(store.resolve(args.id, directory)))
    return 0


def _list(directory: Path, config: Config, *, in_json: bool) -> None:
    from lsp_server.dirs import cache_dir

    machine = look_at_machine(config.engine.n_gpu_layers, cache_dir())
    deadline_ms = config.server.reply_deadline_ms
    listing = Listing(
        directory=directory,
        setting=config.engine.model,
        deadline_ms=deadline_ms,
        entries=store.entries(directory),
        choice=choice.choose(registry.MODELS, machine, deadline_ms),
        added=store.added(directory),
        found=elsewhere.scan(),
    )
    if in_json:
        _say(json.dumps(as_json(listing), indent=2, ensure_ascii=False))
        return
    for line in table(listing):
        _say(line)


def _pull(model_id: str, directory: Path, config: Config) -> int:
    model = registry.find(model_id)
    origins = Origins(config.engine.models_mirror, config.engine.model_sources)
    notes: list[str] = []  # told when the bar is gone
    try:
        with shown() as progress:
            path = fetch.pull(model, directory, origins=origins, progress=progress, say=notes.append)
    except KeyboardInterrupt:
        _complain(f"interrupted; the next `midfill models pull {model.id}` goes on from here")
        return INTERRUPTED
    for note in notes:
        _complain(note)
    _say(f"{model.id}: {path}")
    return 0


def _add(file: str, model_id: str, directory: Path) -> None:
    with shown() as progress:
        record = housekeeping.add(file, directory, model_id=model_id, on_progress=progress)
    _say(f"{record.id}: {record.path}")


def _verify(model_id: str, directory: Path) -> None:
    record = records.load(model_id, directory) if registry.known(model_id) is None else None
    with shown() as progress:
        if record is not None:
            path = store.verify_added(record, progress)
        else:
            path = store.verify(registry.find(model_id), directory, progress)
    if record is not None and record.sha256 is None:
        _say(f"{model_id}: {path} is a whole GGUF file of the size that was noted; no digest of it is known")
    else:
        _say(f"{model_id}: good, every byte of {path}")


def _tell(swept: Swept, done: str, verb: str) -> None:
    for path in swept.paths:
        _say(str(path))
    for reason in swept.kept:
        _say(reason)
    _say(f"{done + ': ' if done else ''}{gigabytes(swept.n_bytes)} {verb}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _complain(sentence: str) -> None:
    sys.stderr.write(f"midfill: {sentence}\n")
