"""A memory plan in words, and what became of it.

Owns the sentences for log, doctor and editor, and the place where the engine's process keeps the latest report. Refuses to
decide: see `memory_plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.config import EngineConfig
from inference.memory_need import Need, Part
from inference.memory_plan import Plan

WHAT_TO_DO = "end other programs, or choose a smaller model (`midfill models list`)"
_WORTH = 1_000_000  # bytes: smaller parts are not named


class Taken(Protocol):
    """A buffer that llama.cpp has reported."""

    @property
    def place(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def n_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """actual: (place, kind, bytes) as llama.cpp reported them; () = not loaded yet. notices: sentences for the user."""

    plan: Plan
    actual: tuple[tuple[str, str, int], ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def planned_bytes(self) -> int:
        """What `actual_bytes` should be."""
        return self.plan.need.reported

    @property
    def actual_bytes(self) -> int:
        return sum(n_bytes for _, _, n_bytes in self.actual)


class MemoryBoard:
    """The latest report, for other threads to read."""

    def __init__(self) -> None:
        self.report: MemoryReport | None = None

    def take(self, report: MemoryReport) -> None:
        self.report = report

    @property
    def notices(self) -> tuple[str, ...]:
        return self.report.notices if self.report is not None else ()


def taken(buffers: Sequence[Taken]) -> tuple[tuple[str, str, int], ...]:
    return tuple((buffer.place, buffer.kind, buffer.n_bytes) for buffer in buffers)


def describe(plan: Plan) -> str:
    """What is needed, part by part, and what is free."""
    return f"{_needed(plan.need)} ({_parts(plan)}); {free_words(plan)}"


def notice(plan: Plan, config: EngineConfig) -> str:
    """For the user: what is lowered, why, and what to do; "" = nothing that was asked for."""
    said = lowered_words(plan, config)
    return f"{said}. {WHAT_TO_DO[0].upper()}{WHAT_TO_DO[1:]}." if said else ""


def lowered_words(plan: Plan, config: EngineConfig) -> str:
    """The same without what to do."""
    told = [each for each in plan.lowered if each.name not in _silent(config)]
    if not told and not plan.is_paged:
        return ""
    what = "; ".join(f"{each.name} is {each.got} instead of {each.asked}" for each in told)
    slow = "the model's file does not fit into memory as a whole, so it is read again and again, which is slow"
    how = "; ".join(part for part in (what, slow if plan.is_paged else "") if part)
    return f"{plan.model} would need {_needed(plan.asked_need)} as it is set up, and {free_words(plan)}: {how}"


def refusal(plan: Plan) -> str:
    """Why the model is not loaded, where the least that it needs is not there."""
    return f"{too_little_words(plan)}; {WHAT_TO_DO}."


def too_little_words(plan: Plan) -> str:
    """The same without what to do."""
    return f"{plan.model} needs at least {_needed(plan.need)}, and {free_words(plan)}"


def free_words(plan: Plan) -> str:
    free, words = plan.free, []
    if free.ram:
        words.append(f"{size(free.ram)} of memory are free")
    if free.address is not None and (not free.ram or free.address < free.ram):
        words.append(f"this process's limit (ulimit) leaves {size(free.address)}")
    if free.devices:
        words.append(f"{size(free.device)} on {', '.join(device.name for device in free.devices)}")
    return ", ".join(words) or "how much memory is free can't be told on this system"


def size(n_bytes: int) -> str:
    """For people, in decimal units."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 0.95e9 else f"{n_bytes / 1e6:,.0f} MB"


def _silent(config: EngineConfig) -> frozenset[str]:
    """What nobody has asked for: as many layers as fit are what -1 means, and what is kept in RAM besides has a usual limit."""
    names = {"stow_bytes", "flash_attention"} - config.explicit
    return frozenset(names | ({"n_gpu_layers"} if config.n_gpu_layers < 0 else set()))


def _needed(need: Need) -> str:
    if need.device:
        return f"{size(need.host)} of memory and {size(need.device)} on the device"
    return f"{size(need.host)} of memory"


def _parts(plan: Plan) -> str:
    options = plan.options
    cells = f"{options.kv_type}, {options.n_cells} tokens"
    words = [_part(part, cells) for part in plan.need.parts if part.host + part.device >= _WORTH]
    if plan.need.device:
        words.append(f"{options.n_gpu_layers} layers on the device")
    return ", ".join(words)


def _part(part: Part, cells: str) -> str:
    word = f"{part.name} {size(part.host + part.device)}"
    return f"{word} ({cells})" if part.name == "cache" else word
