"""Findings about the model: is it there, is it whole, can it fill in the middle, does it fit into memory.

Owns these checks. Refuses native code: what only the loaded vocabulary can tell is for the test completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inference.cache_type import usable_cache
from inference.config import EngineConfig
from inference.hardware import Look
from inference.memory_free import DeviceFree, look_free
from inference.memory_plan import make_plan
from inference.memory_report import WHAT_TO_DO, describe, lowered_words, too_little_words
from inference.models import choice, gguf, records, registry, store
from inference.models.choice import Located
from inference.models.gguf import Header
from inference.models.gguf_sizes import read_sizes
from inference.models.machine import Machine, look_at_machine
from inference.types import EngineError
from lsp_server.config import Config
from lsp_server.doctor.findings import Finding, fault, note, ok, size, warning
from lsp_server.doctor.native import Answer


def locate(answer: Answer, config: Config, cache_dir: Path) -> tuple[Located | None, list[Finding]]:
    """Where the model is. answer: of the question "build"; if that could not tell, the choice is made as for the CPU."""
    if answer.absent:
        return None, [_refused(EngineError(answer.absent))]
    if answer.located:
        where = Located(Path(answer.located["path"]), answer.located["name"], answer.located["note"])
    else:
        try:
            where = choice.locate(config.engine, config.server.reply_deadline_ms, cache_dir, probe=_without_gpu)
        except EngineError as error:
            return None, [_refused(error)]
    return where, [note("model", where.note)] if where.note else []


def _without_gpu(_n_gpu_layers: int, cache_dir: Path) -> Machine:
    return look_at_machine(0, cache_dir)  # asking the GPU loads native code, which has just failed elsewhere


def examine(where: Located, config: EngineConfig) -> tuple[Header | None, list[Finding]]:
    """The file's header if it is good, and the findings."""
    try:
        header = gguf.check(where.path)
    except EngineError as error:
        return None, [_refused(error)]
    title = f" ({header.name})" if header.name else ""
    found = [ok("model", f"{where.name}{title}, {header.architecture}, {size(header.n_bytes)}, {where.path}")]
    if header.context_length and header.context_length < config.n_ctx:
        text = f"n_ctx is {config.n_ctx}, but the model was trained for {header.context_length} tokens, which are used"
        found.append(note("model", text, f"set n_ctx = {header.context_length}"))
    return header, found


def _refused(error: EngineError, topic: str = "model") -> Finding:
    """The sentence says itself what to do; it is cut where that begins."""
    text, mark, do = str(error).rstrip(".").rpartition("; ")
    return fault(topic, text, do) if mark else fault(topic, str(error))


def vocabulary(answer: Answer) -> Iterator[Finding]:
    """Which layout the vocabulary allows. answer: of the question "build"."""
    if answer.build is None:
        return  # nothing could look at it
    if answer.result is None:
        yield fault("vocabulary", f"it can't be read: {answer.error}", "pull or copy the model again, or choose another")
    elif not answer.located:
        return
    elif refused := answer.result.get("refused"):
        yield _refused(EngineError(refused), "vocabulary")
    else:
        family = f"{answer.result['family']}, " if answer.result["family"] else ""
        yield ok("vocabulary", f"{family}prompts are laid out as {answer.result['layout']}")


def digest(where: Located, directory: Path) -> Iterator[Finding]:
    """Every byte against the digest that was published, or noted when the file was pulled or added."""
    model, record = registry.known(where.name), records.load(where.name, directory)
    if model is None and record is None:
        yield note("digest", "a file given by its path has no digest to compare with")
        return
    try:
        path = store.verify(model, directory) if model is not None else store.verify_added(record) if record else where.path
    except EngineError as error:
        yield _refused(error, "digest")
    else:
        yield ok("digest", f"every byte of {path} is as it should be")


def memory(where: Located, build: Mapping[str, Any] | None, config: EngineConfig, look: Look) -> Iterator[Finding]:
    """The plan that the engine would make now. build: what the native library told of devices and the CPU's kernels."""
    sizes = read_sizes(where.path)
    usable, contradiction = usable_cache(config, sizes)
    if contradiction:
        text, _, do = contradiction.rstrip(".").partition(". ")
        yield warning("memory", text, f"{do[:1].lower()}{do[1:]}")
    features = frozenset((build or {}).get("cpu_features", ()))
    free = look_free(look, _devices(build, config))
    plan = make_plan(sizes, usable, free, features, name=where.name)
    if not plan.fits:
        yield fault("memory", too_little_words(plan), WHAT_TO_DO)
    elif lowered := lowered_words(plan, usable):
        yield warning("memory", lowered, WHAT_TO_DO)
    elif not free.ram and not free.devices:
        yield note("memory", describe(plan))
    else:
        yield ok("memory", describe(plan))


def _devices(build: Mapping[str, Any] | None, config: EngineConfig) -> tuple[DeviceFree, ...]:
    """Those that layers may lie on."""
    if build is None or not config.n_gpu_layers or not build["can_offload"]:
        return ()
    return tuple(
        DeviceFree(each["name"], each["free_bytes"], each["total_bytes"], each["kind"] == "integrated gpu")
        for each in build["devices"]
        if each["kind"] in ("gpu", "integrated gpu") and (not config.gpu_devices or each["name"] in config.gpu_devices)
    )
