"""A model that finds no room, and a smaller one of its family that does: the last rule but one of the memory plan.

Owns the choice among the models on disk. Refuses to fetch one, and to take another where the settings leave nothing to choose:
a file given by its path has no family that is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from inference import accelerators, hardware
from inference.cache_type import usable_cache
from inference.config import EngineConfig
from inference.hardware import Look
from inference.memory_free import look_free
from inference.memory_plan import Plan, make_plan
from inference.memory_report import free_words, size
from inference.models import registry, store
from inference.models.choice import Located
from inference.models.gguf_sizes import read_sizes
from inference.types import EngineError

_log = logging.getLogger(__name__)

MakePlan = Callable[[Path, str], Plan]  # of a file and what to call it; without the last rule. EngineError.


def that_fits(
    located: Located, config: EngineConfig, plan_of: MakePlan, is_running: Callable[[Path], bool] = lambda path: False
) -> Located:
    """The model itself if there is room for it, or nothing smaller on disk that there is more room for; else that one.

    is_running: an engine has that file in memory already, so that it needs no room.
    """
    model = registry.known(located.name)
    if model is None or is_running(located.path):
        return located
    try:
        plan = plan_of(located.path, located.name)
    except EngineError:  # whoever opens the file says what is wrong with it
        return located
    if plan.fits and not plan.is_paged:
        return located
    smaller = [
        entry
        for entry in store.installed(store.models_dir(config.models_dir))
        if entry.model.family == model.family and entry.model.bytes < model.bytes
    ]
    for entry in sorted(smaller, key=lambda entry: entry.model.bytes, reverse=True):
        try:
            instead = plan_of(entry.path, entry.model.id)
        except EngineError as error:
            _log.info("%s", error)
            continue
        if (instead.fits and not instead.is_paged) or is_running(entry.path):
            return Located(entry.path, entry.model.id, notice=_notice(model.id, entry.model.id, plan))
    return located


def without_native_code(config: EngineConfig, look: Look | None = None) -> MakePlan | None:
    """Plans for the CPU, as far as they can be made without llama.cpp; None where layers may lie on a device instead."""
    look = look or Look()
    if config.n_gpu_layers and any(found.is_usable for found in accelerators.find(look)):
        return None
    features = hardware.cpu_features(look) | {"REPACK"}

    def plan_of(path: Path, name: str) -> Plan:
        sizes = read_sizes(path)
        usable, _ = usable_cache(config, sizes)
        return make_plan(sizes, usable, look_free(look), features, name=name, may_shrink_more=False)

    return plan_of


def _notice(wanted: str, used: str, plan: Plan) -> str:
    return (
        f"{wanted} needs at least {size(plan.need.host + plan.need.device)}, and {free_words(plan)}: {used} is used instead. "
        f"End other programs for {wanted}, or set model = {used}."
    )
