"""Which model runs when none is named: the setting `model = "auto"`.

Owns the decision, which is a pure function of the known models, the machine and the deadline, and the way from a setting to a
file. Refuses to fetch anything: where a better model is not on disk, it says which command gets it.

The choice is the largest known model whose weights and cache for 4,096 tokens fit into half of the free memory, and whose
reply takes no longer than the deadline. A model whose licence forbids commercial use, or asks one to accept rules of use,
is never chosen: that is for the user to do, by naming it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from inference.config import EngineConfig
from inference.models import registry, store
from inference.models.estimate import Reply, reply
from inference.models.machine import Machine, look_at_machine
from inference.models.model import Model, Terms
from inference.types import EngineError

AUTO = "auto"
N_TOKENS = 4096

Probe = Callable[[int, Path], Machine]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the choice makes of one model. why_not: "" = it fits. is_out: it can't be chosen, whatever the machine has."""

    model: Model
    needed_bytes: int | None
    reply: Reply
    why_not: str = ""
    is_out: bool = False
    is_too_large: bool = False

    @property
    def fits(self) -> bool:
        return not self.why_not


@dataclass(frozen=True, slots=True)
class Choice:
    """verdicts: of all models, largest first. why: of the chosen one, for people."""

    chosen: Model
    why: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """The file to open. name: what to call the model. note: a sentence for people, "" = nothing to tell. notice: one that they
    have to be shown, since it is not what they asked for."""

    path: Path
    name: str
    note: str = ""
    notice: str = ""


def choose(models: Collection[Model], machine: Machine, deadline_ms: float) -> Choice:
    """deadline_ms: of a reply; 0 = none. Where nothing fits, the smallest that may be chosen is.

    EngineError: no model may be chosen at all.
    """
    verdicts = tuple(_verdict(model, machine, deadline_ms, models) for model in _largest_first(models))
    fitting = next((verdict for verdict in verdicts if verdict.fits), None)
    if fitting is not None:
        return Choice(fitting.model, _why(fitting, machine, deadline_ms), verdicts)
    possible = [verdict for verdict in verdicts if not verdict.is_out]
    if not possible:
        raise EngineError("No known model may be chosen automatically; name one with the setting `model`.")
    smallest = possible[-1]
    shown = "" if smallest.is_too_large else "; of a longer reply, what is there by then is shown"
    return Choice(smallest.model, f"the smallest; none fits ({smallest.why_not}{shown})", verdicts)


def _largest_first(models: Collection[Model]) -> list[Model]:
    return sorted(models, key=lambda model: model.bytes, reverse=True)


def _verdict(model: Model, machine: Machine, deadline_ms: float, models: Collection[Model]) -> Verdict:
    needed, time = model.needed_bytes(N_TOKENS), reply(model, machine, models)
    if model.terms is Terms.NON_COMMERCIAL:
        return Verdict(model, needed, time, f"its licence ({model.licence}) forbids commercial use: only by name", is_out=True)
    if model.terms is Terms.RESTRICTED:
        return Verdict(model, needed, time, f"its licence ({model.licence}) has rules to accept: only by name", is_out=True)
    if needed is None:
        return Verdict(model, needed, time, "what memory it needs is not known: only by name", is_out=True)
    half = machine.free_bytes // 2
    if needed > half:
        why_not = f"needs {gigabytes(needed)} with {N_TOKENS:,} tokens, half of the free {machine.memory} is {gigabytes(half)}"
        return Verdict(model, needed, time, why_not, is_too_large=True)
    if deadline_ms and time.ms > deadline_ms:
        why_not = f"a reply takes about {time.ms:,.0f} ms ({time.basis}), the deadline is {deadline_ms:.0f} ms"
        return Verdict(model, needed, time, why_not)
    return Verdict(model, needed, time)


def _why(verdict: Verdict, machine: Machine, deadline_ms: float) -> str:
    until = f", the deadline is {deadline_ms:.0f} ms" if deadline_ms else ""
    needed = gigabytes(verdict.needed_bytes or 0)
    return (
        f"the largest that fits: {needed} of {gigabytes(machine.free_bytes)} free {machine.memory}, "
        f"a reply takes about {verdict.reply.ms:.0f} ms ({verdict.reply.basis}){until}"
    )


def locate(config: EngineConfig, deadline_ms: float, cache_dir: Path, *, probe: Probe | None = None) -> Located:
    """The file of the model that the settings name, or of the one to run where they leave it open.

    A model that is named is taken as it is. probe: looks at the machine. EngineError: it is not there; or none is, and the
    sentence names the command that gets one.
    """
    directory = store.models_dir(config.models_dir)
    name = config.model.strip()
    if name != AUTO:
        path = store.resolve(name, directory)
        return Located(path, path.stem if path == store.absolute(name) else name)
    choice = choose(registry.MODELS, (probe or look_at_machine)(config.n_gpu_layers, cache_dir), deadline_ms)
    present = {entry.model.id: entry.path for entry in store.installed(directory)}
    best = choice.chosen.id
    if best in present:
        return Located(present[best], best, f"{best} was chosen: {choice.why}")
    runner_up = _runner_up(choice, present)
    pull = f"`midfill models pull {best}`"
    if runner_up is None:
        raise EngineError(
            f"No model that fits this machine is on disk (looked in {directory}); run {pull}, "
            f"{gigabytes(choice.chosen.bytes)}, or name another with the setting `model`."
        )
    return Located(present[runner_up.id], runner_up.id, f"{runner_up.id} is used; {best} is better for this machine: {pull}")


def _runner_up(choice: Choice, present: Collection[str]) -> Model | None:
    """Of those on disk: the largest that fits, or else the smallest that at least finds room. None = there is none."""
    here = [verdict for verdict in choice.verdicts if verdict.model.id in present and not verdict.is_out]
    fitting = [verdict for verdict in here if verdict.fits]
    roomy = [verdict for verdict in here if not verdict.is_too_large]
    if fitting:
        return fitting[0].model
    return roomy[-1].model if roomy else None


def gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 0.95e9 else f"{n_bytes / 1e6:,.0f} MB"
