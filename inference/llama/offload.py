"""Which devices a model's layers may lie on, and what to say when there are none.

Owns the setting `gpu_devices` against what this build of llama.cpp sees. Refuses to choose how many layers: that is the plan's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llama_cpp

from inference.config import EngineConfig
from inference.llama.devices import Device, DeviceKind, look_at_devices

_HOLDING = (DeviceKind.GPU, DeviceKind.IGPU, DeviceKind.META)


@dataclass(frozen=True, slots=True)
class Offload:
    """devices: that layers may lie on. is_chosen: these and no others. notice: for the user, "" = none."""

    devices: tuple[Device, ...] = ()
    is_chosen: bool = False
    notice: str = ""


def look_at_offload(config: EngineConfig) -> Offload:
    """What the settings ask for and what there is."""
    there = look_at_devices()  # which silences the native library: looking for devices prints
    return choose(config, there, can_offload=bool(llama_cpp.llama_supports_gpu_offload()))


def choose(config: EngineConfig, there: Sequence[Device], *, can_offload: bool) -> Offload:
    """there: all devices of the registry, the CPU among them; of an older library it may tell none."""
    holding = tuple(device for device in there if device.kind in _HOLDING)
    if config.n_gpu_layers == 0:
        return Offload()
    if not can_offload:
        return Offload(notice=_without(config))
    if not config.gpu_devices or not holding:
        return Offload(holding)
    named = tuple(device for device in holding if device.name in config.gpu_devices)
    missing = [name for name in config.gpu_devices if name not in {device.name for device in holding}]
    if not missing:
        return Offload(named, is_chosen=True)
    names = ", ".join(device.name for device in holding)
    used = ", ".join(device.name for device in named) if named else "the CPU"
    notice = (
        f"gpu_devices names {', '.join(missing)}, but llama.cpp sees {names}: {used} is used. Correct it, or make it empty."
    )
    return Offload(named, is_chosen=True, notice=notice)


def _without(config: EngineConfig) -> str:
    if not config.asks_for_gpu and not config.gpu_devices:
        return ""
    said = f"gpu_devices is {', '.join(config.gpu_devices)}"
    if config.asks_for_gpu:
        said = f"n_gpu_layers is {config.n_gpu_layers}"
    return (
        f"{said}, but llama.cpp as it is built here finds no GPU: the model runs on the CPU. "
        "`midfill doctor` tells what to install; n_gpu_layers = 0 says that the CPU is meant."
    )
