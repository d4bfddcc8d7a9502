"""`midfill cache status | clear`: what is saved of prompts on this disk, and its end.

Owns the sub-command. Asks no engine: the directory says everything, and one that runs finds a cleared directory empty.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from inference.models.choice import gigabytes
from inference.prompt_cache.place import PlaceError, directory_in
from inference.prompt_cache.store import Store
from inference.prompt_cache.trouble import StoreError
from lsp_server.config import Config, default_sources, load


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Adds `cache` to the sub-commands of `midfill` (what `ArgumentParser.add_subparsers` gave)."""
    parser: argparse.ArgumentParser = subparsers.add_parser("cache", help="show and remove prompts that are saved on disk")
    actions = parser.add_subparsers(dest="cache_action", required=True, metavar="ACTION")
    status = actions.add_parser("status", help="where they are, how many, how large")
    status.add_argument("--json", action="store_true", help="one JSON object instead of sentences")
    actions.add_parser("clear", help="remove all of them")
    return parser


def run(args: argparse.Namespace, *, config: Config | None = None, cache_dir: Path | None = None) -> int:
    """The exit status. config, cache_dir: None = the user's."""
    if config is None:
        config, problems = load(default_sources())
        for problem in problems:
            sys.stderr.write(f"midfill: {problem}\n")
    if cache_dir is None:
        from lsp_server.dirs import cache_dir as usual

        cache_dir = usual()
    store = Store(directory_in(cache_dir), config.engine.prompt_cache_bytes)
    try:
        if args.cache_action == "clear":
            return _clear(store)
        return _tell(_status(store, config), as_json=args.json)
    except (PlaceError, StoreError) as error:
        sys.stderr.write(f"midfill: {error}\n")
        return 1
    finally:
        store.close()


def _clear(store: Store) -> int:
    n_bytes = 0
    if store.directory.exists() or store.directory.is_symlink():
        _open(store)
        n_bytes = store.clear()
    sys.stdout.write(f"{gigabytes(n_bytes)} of saved prompts removed from {store.directory}\n")
    return 0


def _status(store: Store, config: Config) -> dict[str, Any]:
    """As in the JSON object."""
    is_on = config.engine.prompt_cache and config.engine.prompt_cache_bytes > 0
    told: dict[str, Any] = {"directory": str(store.directory), "is_on": is_on, "n_prompts": 0, "n_tokens": 0, "n_bytes": 0}
    told |= {"n_kinds": 0, "limit_bytes": config.engine.prompt_cache_bytes, "used_at": None}
    if not (store.directory.exists() or store.directory.is_symlink()):
        return told
    _open(store)
    listed = store.listed()
    return told | {
        "n_prompts": len(listed),
        "n_tokens": sum(each.entry.n_tokens for each in listed),
        "n_bytes": sum(each.entry.n_bytes for each in listed),
        "n_kinds": len({each.of for each in listed}),
        "limit_bytes": store.limit_bytes(),
        "used_at": max((each.entry.used_at for each in listed), default=None),
    }


def _open(store: Store) -> None:
    if said := store.open():
        sys.stderr.write(f"midfill: {said}\n")


def _tell(told: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    lines = [f"saved prompts in {told['directory']}" + ("" if told["is_on"] else " (switched off: prompt_cache)")]
    if told["n_prompts"]:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(told["used_at"]))
        prompts = "1 prompt" if told["n_prompts"] == 1 else f"{told['n_prompts']} prompts"
        kinds = "one kind" if told["n_kinds"] == 1 else f"{told['n_kinds']} kinds"
        lines.append(f"{prompts} with {told['n_tokens']:,} tokens, used last {used}")
        lines.append(f"of {kinds} (model, settings and build together)")
    lines.append(f"{gigabytes(told['n_bytes'])} of at most {gigabytes(told['limit_bytes'])}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0
