"""What every session works with once the engine is there: client, planner, tokenizer, settings, clock. Changes by
replacement."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from inference.clients.base import EngineClient
from lsp_server.config import Config
from lsp_server.learning.learned import Learned
from lsp_server.plans.called_names import CalledNames
from lsp_server.plans.planning import Planner
from lsp_server.trees import Trees
from lsp_server.warm.allowance import Allowance


class TimedTokenizer:
    """A vocabulary that counts the seconds spent in it, so that planning and tokenizing are told apart."""

    def __init__(self, encode: Callable[[bytes], tuple[int, ...]], clock: Callable[[], float]) -> None:
        self._encode = encode
        self._clock = clock
        self.seconds = 0.0

    def encode(self, text: bytes) -> tuple[int, ...]:
        started = self._clock()
        tokens = self._encode(text)
        self.seconds += self._clock() - started
        return tokens


@dataclass(frozen=True, slots=True)
class Desk:
    """pool: one thread for planning that is too long for the event loop. allowance: what the background may do. learned: what
    was generated before, and when to ask. trees: the documents' syntax. names: what is defined elsewhere."""

    client: EngineClient
    planner: Planner
    tokenizer: TimedTokenizer
    config: Config
    clock: Callable[[], float]
    pool: Executor
    allowance: Allowance
    learned: Learned
    trees: Trees
    names: CalledNames
