"""`midfill doctor`: what is wrong with this installation, or could be better, and what to do about it.

Owns the command, the order of the checks, and that none of them can end the others. Refuses to change anything, and native code
in this process: that runs in a child (`lsp_server.doctor.native`).
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inference import accelerators
from inference.hardware import Look
from inference.models import registry, store
from inference.models.choice import Located
from inference.models.gguf import Header
from lsp_server.config import Config, Sources, default_sources, load
from lsp_server.doctor import engine as engine_checks
from lsp_server.doctor import install, native, places, remote, trial
from lsp_server.doctor import model as model_checks
from lsp_server.doctor.findings import Finding, as_json, as_line, exit_status, note, summary, warning
from lsp_server.doctor.native import Answer
from lsp_server.doctor.places import FreeBytes

_log = logging.getLogger(__name__)


def add_parser(subparsers: Any) -> None:
    """Adds `doctor` to the sub-commands of `midfill`."""
    parser = subparsers.add_parser("doctor", help="check the installation, the engine, the model and this machine")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--no-completion", action="store_true", help="leave out the timed test completion")
    parser.add_argument("--model", default="", metavar="ID_OR_PATH", help="instead of the one in the settings")
    parser.add_argument("--verify", action="store_true", help="compare every byte of the model with its published digest")
    parser.add_argument(
        "--timeout", type=_seconds, default=native.COMPLETION_S, metavar="SECONDS", help="limit of the test completion"
    )


def run(args: argparse.Namespace) -> int:
    """Check, tell, and give the exit status: 1 if anything is a fault."""
    found: list[Finding] = []
    examination = Examination(args.model, args.verify, None if args.no_completion else args.timeout)
    for finding in examination.findings():
        found.append(finding)
        if not args.json:
            _say(as_line(finding))
    if args.json:
        told = {
            "works": not exit_status(found),
            "findings": [as_json(finding) for finding in found],
            "build": examination.build,
            "completion": examination.completion,
        }
        _say(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        _say(f"\n{summary(found)}")
    return exit_status(found)


@dataclass(slots=True)
class Examination:
    """One pass over everything. timeout_s: of the test completion, None = without. look, free: how machine and disks are seen.

    build, completion: what the children answered, as soon as they have. where, header: the model and its header, as soon as
    they are found good.
    """

    model: str = ""
    verify: bool = False
    timeout_s: float | None = native.COMPLETION_S
    look: Look = field(default_factory=Look)
    free: FreeBytes = places.free_bytes
    build: Any = None
    completion: Any = None
    where: Located | None = None
    header: Header | None = None

    def findings(self) -> Iterator[Finding]:
        sources = default_sources()
        config, problems = load(sources)
        if self.model:
            config = replace(config, engine=replace(config.engine, model=self.model))
        yield from self._installation(sources, config, problems)
        answer = native.ask("build", self.model, native.BUILD_S)
        self.build = answer.build
        yield from self._machine(answer, config)
        yield from self._model(answer, config)

    def _installation(self, sources: Sources, config: Config, problems: tuple[str, ...]) -> Iterator[Finding]:
        yield from _guarded("installation", install.installation)
        yield from _guarded("python", install.python)
        yield from _guarded("packages", install.packages)
        yield from _guarded("command", install.command)
        yield from _guarded("settings", lambda: install.settings(sources, config, problems))
        if config.engine.engine_url:
            yield from _guarded("engine_url", lambda: remote.remote(config.engine))

    def _machine(self, answer: Answer, config: Config) -> Iterator[Finding]:
        look, engine, build = self.look, config.engine, answer.build
        found = accelerators.find(look)
        yield from _guarded("engine", lambda: engine_checks.engine(answer, found, engine, look))
        yield from _guarded("engine wheels", lambda: engine_checks.wheels(engine))
        yield from _guarded("compiler", lambda: engine_checks.compiler(look, engine, build is not None))
        if build is not None:
            yield from _guarded("gpu", lambda: engine_checks.gpu(build, found, engine, look))
            yield from _guarded("cpu", lambda: engine_checks.cpu(build, engine, look))
        yield from _guarded("threads", lambda: engine_checks.threads(engine, look))

    def _model(self, answer: Answer, config: Config) -> Iterator[Finding]:
        if config.engine.engine_url and not self.model:
            yield note("model", "that of the engine at engine_url; --model looks at one that is here")
            yield from _guarded("cache", lambda: places.cache_directory(_cache_dir(), self.free))
            return
        directory = store.models_dir(config.engine.models_dir)
        yield from _guarded("model", lambda: self._find_model(answer, config))
        where, header, obstacle = self.where, self.header, "no model"
        if where is not None and self.verify:
            yield from _guarded("digest", lambda: model_checks.digest(where, directory))
        if header is not None:
            obstacle = ""
            yield from _guarded("vocabulary", lambda: model_checks.vocabulary(answer))
            assert where is not None, "its header was read"
            fits = list(_guarded("memory", lambda: model_checks.memory(where, answer.build, config.engine, self.look)))
            yield from fits
            obstacle = "no memory for it" if exit_status(fits) else obstacle
        missing = registry.known(answer.wanted) if where is None else None
        needed = missing.bytes if missing is not None else 0
        yield from _guarded("models", lambda: places.models_directory(directory, needed, self.free))
        yield from _guarded("cache", lambda: places.cache_directory(_cache_dir(), self.free))
        yield from _guarded("saved prompts", lambda: places.saved_prompts(_cache_dir(), is_on=config.engine.prompt_cache))
        yield from self._trial(answer, config, obstacle)

    def _find_model(self, answer: Answer, config: Config) -> Iterator[Finding]:
        self.where, found = model_checks.locate(answer, config, _cache_dir())
        yield from found
        if self.where is not None:
            self.header, found = model_checks.examine(self.where, config.engine)
            yield from found

    def _trial(self, answer: Answer, config: Config, obstacle: str) -> Iterator[Finding]:
        if answer.build is None:
            obstacle = "no engine"
        if self.timeout_s is None:
            yield note("completion", "not tried: --no-completion")
        elif obstacle:
            yield note("completion", f"not tried: {obstacle}")
        else:
            tried = native.ask("completion", self.model, self.timeout_s)
            self.completion = tried.result
            yield from _guarded("completion", lambda: trial.completion(tried, config, self.look))


def _guarded(topic: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The check's findings; a check that fails is itself one, and the others go on."""
    try:
        yield from check()
    except Exception as error:
        _log.debug("details", exc_info=True)
        yield warning(topic, f"this check failed ({type(error).__name__}: {error})", "MIDFILL_LOG=debug shows where")


def _cache_dir() -> Path:
    from lsp_server.dirs import cache_dir

    return cache_dir()


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("expected seconds, more than 0 and at most 86400")
    return seconds


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
