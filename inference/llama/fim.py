"""How the model of a GGUF fills in the middle: the family its vocabulary shows, and a test that the markers are what they seem.

Owns the ids behind a family's names and every reason to refuse. Refuses to guess: a marker that is no single token, or that the
file's metadata give another meaning, would make nonsense of every prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from inference.families import FAMILIES, PARTS, Family, recognize
from inference.types import FimTokens, Marker

GENERIC = "generic"  # markers by the file's metadata alone
MetadataIds = tuple[int, int, int]  # prefix, suffix, middle as llama.cpp found them; -1: not there


def read_fim(
    names: Mapping[str, int],
    metadata_ids: MetadataIds,
    model_name: str,
    parsed: Callable[[str], list[int]],
) -> FimTokens | str:
    """The model's format, or half a sentence that says why there is none.

    names: control tokens of the vocabulary. parsed: tokens of a text in which names of control tokens count as such.
    """
    family = recognize(names, model_name)
    if family is None:
        return _generic(names, metadata_ids)
    for name in family.markers:
        tokens = parsed(name)
        if tokens != [names[name]]:
            return f"its marker {name} is {len(tokens)} tokens of its vocabulary instead of the one it should be"
    if family.psm and min(metadata_ids) >= 0:
        expected = tuple(names[name] for name in family.psm if name in names)
        if metadata_ids != expected:
            return f"its metadata name the tokens {metadata_ids} as markers, but its vocabulary has them at {expected}"
    return FimTokens(
        family=family.name,
        psm=_order(family.psm, names),
        spm=_order(family.spm, names),
        header=tuple((names[entry], entry) if entry in names else entry for entry in family.header),
        title=family.title,
        lead=family.lead,
    )


def marker_ids(fim: FimTokens) -> frozenset[int]:
    """Every control token of the format."""
    entries = (*(fim.psm or ()), *(fim.spm or ()), *fim.header)
    return frozenset(entry[0] for entry in entries if not isinstance(entry, str))


def _order(order: tuple[str, ...], names: Mapping[str, int]) -> tuple[Marker | str, ...] | None:
    return tuple(entry if entry in PARTS else (names[entry], entry) for entry in order) or None


def _generic(names: Mapping[str, int], metadata_ids: MetadataIds) -> FimTokens | str:
    """A format nobody has written down here: prefix, suffix, middle, if the file names all three."""
    if min(metadata_ids) < 0:
        some = sorted({name for family in FAMILIES for name in _distinct(family) if name in names})
        return f"of the markers it has only {', '.join(some)}" if some else "it has no fill-in-the-middle tokens"
    if len(set(metadata_ids)) < 3:
        return f"its metadata give two markers the same token ({metadata_ids})"
    spelled = {token: name for name, token in names.items()}
    prefix, suffix, middle = ((token, spelled.get(token, str(token))) for token in metadata_ids)
    return FimTokens(GENERIC, ("header", prefix, "prefix", suffix, "suffix", middle))


def _distinct(family: Family) -> tuple[str, ...]:
    return tuple(entry for entry in (*family.psm, *family.spm) if entry not in PARTS)
