"""Findings about the engine: can it be loaded, what was it built for, and what could this machine use that it has not.

Owns the comparison of build and machine, and the command for each difference. Refuses to look by itself: both are given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inference.accelerators import Accelerator, Kind
from inference.config import EngineConfig
from inference.hardware import KNOWN_FEATURES, Look, cpu_features, cpu_quota, has_compiler
from inference.measure import cpu_name, usable_cpus
from inference.models.store import absolute
from lsp_server.doctor.commands import before_building, compiler_command, get_engine, requirement
from lsp_server.doctor.findings import Finding, fault, note, ok, size, warning
from lsp_server.doctor.native import Answer

# names in llama.cpp's registry
_REGISTERED = {
    Kind.CUDA: frozenset({"CUDA"}),
    Kind.ROCM: frozenset({"ROCm", "HIP"}),
    Kind.METAL: frozenset({"MTL", "Metal"}),
    Kind.VULKAN: frozenset({"Vulkan"}),
}
_ALWAYS_THERE = frozenset({"CPU", "BLAS", "RPC"})
# without these a step takes a multiple of the time; without others some per cent of a prompt's
_IMPORTANT = frozenset({"AVX", "AVX2", "FMA", "F16C", "NEON", "DOTPROD"})


def engine(answer: Answer, found: Sequence[Accelerator], config: EngineConfig, look: Look) -> Iterator[Finding]:
    """Whether llama-cpp-python can be loaded, and its back ends."""
    build = answer.build
    if build is None:
        missing = answer.is_broken and "No module named 'llama_cpp'" in answer.error
        text = "llama-cpp-python is not installed" if missing else f"llama-cpp-python can't be loaded: {answer.error}"
        kind = next((each.kind for each in found if each.is_usable and config.n_gpu_layers), None)
        yield fault("engine", text, _get(config, look, kind, again=not missing))
        return
    text = f"llama-cpp-python {build['version']}, built with {', '.join(build['backends']) or 'no back end'}"
    wanted = requirement().partition("==")[2]
    if wanted and wanted != build["version"]:
        yield warning("engine", f"{text}; midfill is made for {wanted}", _get(config, look))
    else:
        yield ok("engine", text)
    for device in build["devices"]:
        if device["kind"] not in ("cpu", "cpu accelerator"):
            free = f", {size(device['free_bytes'])} of {size(device['total_bytes'])} free" if device["total_bytes"] else ""
            yield ok("device", f"{device['name']}: {device['description']}{free}")


def gpu(build: Mapping[str, Any], found: Sequence[Accelerator], config: EngineConfig, look: Look) -> Iterator[Finding]:
    """What was asked for (n_gpu_layers), what the build can do, and what the machine could."""
    has = [name for name in build["backends"] if name not in _ALWAYS_THERE]
    best = next((each for each in found if each.is_usable), None)
    if config.asks_for_gpu and not build["can_offload"]:
        text = f"n_gpu_layers is {config.n_gpu_layers}, but "
        if has:
            text += f"the back end {', '.join(has)} finds no device"
            do = _driver(found) or "install the device's driver, or set n_gpu_layers = 0"
        else:
            text += f"this build of llama.cpp has no back end for a GPU (only {', '.join(build['backends'])})"
            do = f"{_get(config, look, best.kind)}, or set n_gpu_layers = 0" if best else "set n_gpu_layers = 0"
        yield warning("gpu", f"{text}: the CPU is used", do)
        return
    if config.n_gpu_layers == 0 and (build["can_offload"] or best):
        yield note("gpu", "n_gpu_layers is 0, so the CPU is used although there is a GPU", "set n_gpu_layers = -1")
        return
    if build["can_offload"]:
        layers = "all layers that fit" if config.n_gpu_layers < 0 else f"up to {config.n_gpu_layers} layers"
        yield ok("gpu", f"{', '.join(has)} holds {layers}")
        return
    unused = [each for each in found if each.is_usable and not _is_in(each.kind, has)]
    if has:  # built for a GPU that isn't there
        text = f"the build has {', '.join(has)}, which finds no device: the CPU is used"
        yield warning("gpu", text, _driver(found) or (_get(config, look, unused[0].kind) if unused else "install the driver"))
    elif unused:
        memory = f", {size(unused[0].total_bytes)}" if unused[0].total_bytes else ""
        text = f"this machine has {unused[0].name} ({unused[0].kind}{memory}), which this build can't use: the CPU is used"
        yield note("gpu", text, _get(config, look, unused[0].kind))
    elif found:
        yield note("gpu", f"{found[0].name} ({found[0].kind}) can't be used: the CPU is used", found[0].lacks)
    else:
        yield ok("gpu", "none was found (NVIDIA, AMD, Apple, Vulkan): the CPU is used")


def cpu(build: Mapping[str, Any], config: EngineConfig, look: Look) -> Iterator[Finding]:
    """CPU features that the machine has and the build does not use, and the other way round."""
    here, built = cpu_features(look), frozenset(build["cpu_features"]) & KNOWN_FEATURES
    if not here:
        yield note("cpu", f"{cpu_name()}: its features can't be told on this system")
        return
    if alien := sorted(built - here):
        text = f"the engine was built for a CPU with {', '.join(alien)}, which {cpu_name()} has not: it will crash"
        yield fault("cpu", text, _get(config, look))
    elif missing := sorted(here - built):
        report = warning if _IMPORTANT.intersection(missing) else note
        text = f"{cpu_name()} has {', '.join(missing)}, which this build does not use"
        yield report("cpu", text, _get(config, look))
    else:
        yield ok("cpu", f"{cpu_name()}, all its features are used ({', '.join(sorted(here))})")


def threads(config: EngineConfig, look: Look) -> Iterator[Finding]:
    """Threads against CPUs, affinity and quota."""
    usable, quota = usable_cpus(), cpu_quota(look)
    chosen = "measured at the first start" if not config.n_threads else f"n_threads = {config.n_threads}"
    has_quota = quota is not None and quota < usable
    most = max(1, math.floor(quota)) if has_quota and quota is not None else usable
    limit = f" by a quota of {quota:g}" if has_quota else ""
    text = f"{chosen}; this process may use {usable} CPUs{', cut' + limit if limit else ''}"
    if config.n_threads > most:
        yield warning("threads", f"{text}: more threads than that wait for each other", f"set n_threads = {most} or 0")
    elif limit and not config.n_threads:
        yield warning("threads", text, f"set n_threads = {most}")
    else:
        yield ok("threads", text)


def compiler(look: Look, config: EngineConfig, is_engine_there: bool) -> Iterator[Finding]:
    """Only a source build of the engine needs one."""
    if has_compiler(look):
        yield ok("compiler", "a C and a C++ compiler are there")
        return
    do = f"{compiler_command(look)}, or set engine_wheels to a directory or index with built wheels"
    if is_engine_there or config.engine_wheels:
        yield note("compiler", "there is no C and C++ compiler; only to build the engine from source is one needed", do)
    else:
        yield fault("compiler", "there is no C and C++ compiler, which building the engine from source needs", do)


def wheels(config: EngineConfig) -> Iterator[Finding]:
    """Whether the directory in `engine_wheels` holds what it is for. (An address is pip's to ask.)"""
    if not config.engine_wheels or "://" in config.engine_wheels:
        return
    directory = absolute(config.engine_wheels)
    do = "correct the setting engine_wheels, or make it empty"
    if not directory.is_dir():
        yield warning("engine wheels", f"{directory} is no directory", do)
    elif not any(directory.glob("llama_cpp_python-*.whl")):
        yield warning("engine wheels", f"there is no wheel of llama-cpp-python in {directory}", do)
    else:
        yield ok("engine wheels", str(directory))


def _get(config: EngineConfig, look: Look, kind: Kind | None = None, again: bool = True) -> str:
    given = config.engine_wheels
    source = given if not given or "://" in given else str(absolute(given))
    return before_building(look, source, kind) + get_engine(look, source, kind=kind, again=again)


def _driver(found: Sequence[Accelerator]) -> str:
    return next((f"{each.name}: {each.lacks}" for each in found if each.lacks), "")


def _is_in(kind: Kind, backends: Sequence[str]) -> bool:
    return bool(_REGISTERED[kind].intersection(backends))
