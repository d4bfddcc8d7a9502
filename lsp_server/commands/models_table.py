"""What `midfill models list` shows: the known models with the automatic choice, added files, and those of other programs.

Owns the table and the JSON object. Everything shown comes from `inference.models`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference.models import store
from inference.models.choice import Choice, Verdict, gigabytes
from inference.models.elsewhere import Found
from inference.models.model import Model, Terms
from inference.models.records import Record
from inference.models.store import Entry, State

_HEAD = ("", "ID", "SIZE", "LICENCE", "STATE", "AS AUTOMATIC CHOICE")


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything that is shown. setting: the model that the settings name."""

    directory: Path
    setting: str
    deadline_ms: int
    entries: tuple[Entry, ...]
    choice: Choice
    added: tuple[Record, ...]
    found: tuple[Found, ...]


def table(listing: Listing) -> Iterator[str]:
    """Lines of text: the smallest model first, the chosen one marked with `*`."""
    verdicts = {verdict.model.id: verdict for verdict in listing.choice.verdicts}
    chosen = listing.choice.chosen.id
    entries = sorted(listing.entries, key=lambda entry: entry.model.bytes)
    yield from _aligned([_HEAD, *(_row(entry, verdicts[entry.model.id], chosen, listing.choice.why) for entry in entries)])
    yield ""
    yield f"* the automatic choice for this machine; the setting `model` is {listing.setting!r}"
    for entry in listing.entries:
        if entry.state is State.PRESENT and entry.owner:
            yield f"{entry.model.id} is the file of {entry.owner}: {entry.path}"
    yield f"models are kept in {listing.directory}"
    if listing.added:
        yield ""
        yield "Added by path (use the id as `model`):"
        yield from _aligned([_added_row(record) for record in listing.added])
    if listing.found:
        yield ""
        yield "Of other programs (use the name as `model`; a pull uses such a file in place if it is the published one):"
        yield from _aligned([("", one.name, gigabytes(one.n_bytes), str(one.path)) for one in listing.found])


def as_json(listing: Listing) -> dict[str, object]:
    verdicts = {verdict.model.id: verdict for verdict in listing.choice.verdicts}
    chosen = listing.choice.chosen.id
    return {
        "models_dir": str(listing.directory),
        "setting": listing.setting,
        "deadline_ms": listing.deadline_ms,
        "automatic_choice": {"id": chosen, "why": listing.choice.why},
        "models": [_model_json(entry, verdicts[entry.model.id], chosen) for entry in listing.entries],
        "added": [
            {
                "id": record.id,
                "path": str(record.path),
                "bytes": record.n_bytes,
                "sha256": record.sha256,
                "in_place": store.is_in_place(record),
            }
            for record in listing.added
        ],
        "elsewhere": [
            {"name": one.name, "owner": one.owner, "path": str(one.path), "bytes": one.n_bytes, "sha256": one.sha256}
            for one in listing.found
        ],
    }


def _row(entry: Entry, verdict: Verdict, chosen: str, why: str) -> tuple[str, ...]:
    model = entry.model
    state = str(entry.state)
    if entry.state is State.PARTIAL:
        state += f" ({100 * entry.n_bytes // model.bytes} %)"
    elif entry.state is State.PRESENT and entry.owner:
        state += f" ({entry.owner})"
    mark, reason = ("*", f"chosen: {why}") if model.id == chosen else ("", verdict.why_not or "fits, but is smaller")
    return (mark, model.id, size(model), _licence(model), state, reason)


def size(model: Model) -> str:
    return ("" if model.is_size_exact else "about ") + gigabytes(model.bytes)


def _licence(model: Model) -> str:
    return model.licence if model.terms is Terms.OPEN else f"{model.licence} ({model.terms})"


def _added_row(record: Record) -> tuple[str, ...]:
    gone = "" if store.is_in_place(record) else "  (no longer there, or changed)"
    return ("", record.id, gigabytes(record.n_bytes), f"{record.path}{gone}")


def _model_json(entry: Entry, verdict: Verdict, chosen: str) -> dict[str, object]:
    model, shape = entry.model, entry.model.shape
    return {
        "id": model.id,
        "title": model.title,
        "bytes": model.bytes,
        "is_size_exact": model.is_size_exact,
        "sha256": model.sha256,
        "licence": model.licence,
        "terms": str(model.terms),
        "family": model.family,
        "layout": model.layout,
        "repo_format": model.repo_format,
        "drafts": list(model.drafts),
        "hub": {"repository": model.hub_repo, "file": model.hub_file} if model.hub_repo else None,
        "kv_bytes_per_token": shape.kv_bytes_per_token if shape else None,
        "on_disk": entry.state is State.PRESENT,
        "state": str(entry.state),
        "bytes_on_disk": entry.n_bytes,
        "path": str(entry.path),
        "owner": entry.owner,
        "is_chosen": model.id == chosen,
        "fits": verdict.fits,
        "why_not": verdict.why_not,
        "needed_bytes": verdict.needed_bytes,
        "reply_ms": round(verdict.reply.ms, 1),
        "reply_basis": verdict.reply.basis,
    }


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
