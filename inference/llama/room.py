"""The memory plan of a model for this process: its file, the settings, this build of llama.cpp and what is free now.

Owns the joining of the four. Refuses the rules (`inference.memory_plan`) and loads no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inference.cache_type import usable_cache
from inference.config import EngineConfig
from inference.llama.devices import Device, DeviceKind, look_at_build
from inference.llama.offload import look_at_offload
from inference.memory_free import DeviceFree, look_free
from inference.memory_plan import Plan, make_plan
from inference.memory_report import notice, refusal
from inference.models.choice import Located
from inference.models.gguf_sizes import ModelSizes, read_sizes
from inference.smaller_model import that_fits
from inference.types import NoRoom


@dataclass(frozen=True, slots=True)
class Room:
    """config: the settings as they can be had with this model. plan: under these. notices: for the user, about_devices among
    them, if that is not empty."""

    sizes: ModelSizes
    config: EngineConfig
    plan: Plan
    notices: tuple[str, ...] = ()
    about_devices: str = ""

    def require(self) -> None:
        """NoRoom: the least that the model needs is not there."""
        if not self.plan.fits:
            raise NoRoom(refusal(self.plan))


def plan_room(
    config: EngineConfig, path: Path, name: str = "", *, draft: Path | None = None, may_shrink_more: bool = True
) -> Room:
    """name: what the model is called in sentences. draft: of a model to be loaded beside it. may_shrink_more: see `make_plan`.
    EngineError: a file can't be read."""
    sizes = read_sizes(path)
    usable, contradiction = usable_cache(config, sizes)
    offload = look_at_offload(config)
    free = look_free(devices=tuple(_free(device) for device in offload.devices))
    plan = make_plan(
        sizes, usable, free, look_at_build().cpu_features, name=name, draft=None if draft is None else read_sizes(draft),
        may_shrink_more=may_shrink_more,
    )  # fmt: skip
    told = (offload.notice, contradiction, notice(plan, usable))
    return Room(sizes, usable, plan, tuple(sentence for sentence in told if sentence), offload.notice)


def _free(device: Device) -> DeviceFree:
    is_shared = device.kind is DeviceKind.IGPU or device.name.startswith(("MTL", "Metal"))
    return DeviceFree(device.name, device.free_bytes, device.total_bytes, is_shared)


def smaller_if_needed(located: Located, config: EngineConfig) -> Located:
    """The model, or a smaller one of its family if it finds no room."""
    return that_fits(located, config, lambda path, name: plan_room(config, path, name, may_shrink_more=False).plan)
