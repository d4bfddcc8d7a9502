"""Which devices layers may lie on: what was asked for against what there is, and what is said."""

from __future__ import annotations

from pathlib import Path

import llama_cpp
import pytest

from inference.config import EngineConfig
from inference.llama import offload, room
from inference.llama.devices import Device, DeviceKind, look_at_devices, native_devices
from inference.llama.offload import choose
from inference.llama.room import plan_room
from inference.memory_free import DeviceFree

CPU = Device("CPU", "a processor", DeviceKind.CPU, 1, 1)
CARDS = tuple(Device(f"CUDA{i}", "a card", DeviceKind.GPU, 8 << 30, 6 << 30) for i in range(2))
CHIP = Device("MTL0", "a chip", DeviceKind.GPU, 16 << 30, 12 << 30)
ASKED = frozenset({"n_gpu_layers"})


def chosen(*there: Device, **config: object) -> offload.Offload:
    return choose(EngineConfig(**config), (CPU, *there), can_offload=bool(there))  # type: ignore[arg-type]


def test_all_devices_are_used_unless_some_are_named() -> None:
    assert chosen(*CARDS).devices == CARDS and not chosen(*CARDS).is_chosen
    one = chosen(*CARDS, gpu_devices=("CUDA1",))
    assert one.devices == CARDS[1:] and one.is_chosen and not one.notice
    assert chosen(*CARDS, n_gpu_layers=0) == offload.Offload()


def test_a_device_that_is_not_there_is_named() -> None:
    some = chosen(*CARDS, gpu_devices=("CUDA1", "CUDA7"))
    assert some.devices == CARDS[1:] and "names CUDA7, but llama.cpp sees CUDA0, CUDA1: CUDA1 is used" in some.notice
    none = chosen(*CARDS, gpu_devices=("Vulkan0",))
    assert none.devices == () and none.is_chosen and "the CPU is used" in none.notice


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, ""), ({"n_gpu_layers": 0, "explicit": ASKED}, ""), ({"n_gpu_layers": 9}, "n_gpu_layers is 9"),
        ({"explicit": ASKED}, "n_gpu_layers is -1"), ({"gpu_devices": ("CUDA0",)}, "gpu_devices is CUDA0"),
    ],
)  # fmt: skip
def test_without_a_device_only_who_asked_is_told(config: dict[str, object], said: str) -> None:
    found = chosen(**config)
    assert found.devices == () and found.notice.startswith(said) and bool(found.notice) == bool(said)
    assert not said or "the model runs on the CPU" in found.notice


def test_what_the_registry_does_not_tell_is_left_to_llama_cpp() -> None:
    assert choose(EngineConfig(), (), can_offload=True) == offload.Offload()
    assert native_devices(["no such device"])[0] is None
    assert native_devices([device.name for device in look_at_devices()])[0] is not None


@pytest.mark.skipif(llama_cpp.llama_supports_gpu_offload(), reason="this build has a GPU backend")
def test_the_plan_knows_the_devices(tiny_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models["llama"]
    plain = plan_room(EngineConfig(n_gpu_layers=5, kv_type="q8_0", flash_attention="off"), path, "tiny")
    assert len(plain.notices) == 2 and plain.about_devices == plain.notices[0] and plain.config.kv_type == "f16"
    monkeypatch.setattr(room, "look_at_offload", lambda config: offload.Offload((*CARDS, CHIP)))
    made = plan_room(EngineConfig(), path, "tiny").plan
    assert made.free.devices[0] == DeviceFree("CUDA0", 6 << 30, 8 << 30) and made.free.devices[2].is_shared
    assert made.options.n_gpu_layers == 3 and made.need.device > 0
