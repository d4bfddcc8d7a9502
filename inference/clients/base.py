"""The engine as the server room sees it. The in-process client is `local`; a shared process will fit the same Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from inference.backend import Vocab
from inference.types import Costs, Counters, GenerationRequest, TokenEvent


class Stream(Protocol):
    """Events of one request, in order; the last one has a finish."""

    async def next(self) -> TokenEvent:
        """The next event. Must not be called after the one with a finish."""
        ...

    def cancel(self) -> None:
        """End the request; an event with finish CANCELLED follows unless it had ended. May be called at any time."""
        ...


class EngineClient(Protocol):
    """All methods are called on the event loop and none blocks it."""

    @property
    def vocab(self) -> Vocab: ...
    @property
    def n_ctx(self) -> int:
        """Longest sequence (prompt and what is generated), in tokens."""
        ...

    @property
    def model_name(self) -> str: ...
    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences for the user about how the model was opened, e.g. that no GPU is used although one was asked for."""
        ...

    def next_id(self) -> int: ...
    def submit(self, request: GenerationRequest) -> Stream: ...
    async def n_reusable(self, tokens: Sequence[int]) -> int:
        """Length of the longest prefix of `tokens` resident now; may be off by what the running step changes."""
        ...

    def offer(self, chunks: Mapping[str, tuple[int, ...]]) -> None:
        """Texts to draft from, as tokens by their digests, that coming requests name. The engine is sent each once."""
        ...

    def costs(self) -> Costs: ...
    def counters(self) -> Counters: ...
    async def aclose(self) -> None: ...
