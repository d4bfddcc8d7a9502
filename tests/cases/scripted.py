"""The scripted model: the real engine, healing, detokenizing and stopping over the strict fake backend, told what to say.

What a script says comes after the cursor: it is preceded by the healing bytes, as tokens. Every request that reaches the engine
is recorded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.backend import Row, Vocab
from inference.clients.local import LocalClient, LocalStream
from inference.config import EngineConfig
from inference.engine import Engine
from inference.types import Costs, GenerationRequest, Priority, TokenEvent
from tests.support.fake_backend import FakeBackend, FakeVocab, Speaks
from tests.support.layouts import markers_of

BOS = "<|im_end|>"  # stands in for a beginning-of-sequence token where a case wants one: a control token that is no FIM marker


@dataclass
class Model:
    """says: tokens after the cursor, for the first, second, … generation; the last one again and again. by_prompt: the same for
    prompts that hold a text. endless: says the last tokens for ever. step_s: native time of every step; delay_s: of the first
    step of each generation."""

    vocab: Speaks = field(default_factory=FakeVocab)
    says: Sequence[tuple[int, ...]] = ((),)
    by_prompt: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    endless: bool = False
    delay_s: float = 0.0
    step_s: float = 0.0

    @classmethod
    def saying(cls, *texts: str, **more: Any) -> Model:
        vocab = more.pop("vocab", None) or FakeVocab()
        return cls(vocab, tuple(vocab.encode_special(text) for text in texts or ("",)), **more)

    @classmethod
    def of_tokens(cls, pieces: Sequence[bytes], **more: Any) -> Model:
        """Says these pieces, each of them one token."""
        vocab = FakeVocab(pieces)
        ids = {piece: token for token, piece in enumerate(vocab.pieces) if piece}
        return cls(vocab, (tuple(ids[piece] for piece in pieces),), **more)

    @classmethod
    def of_case(cls, options: Mapping[str, Any], n_output: int | None = None) -> Model:
        """options: of a case, by name. n_output: only this one of its outputs."""
        if "token_bytes" in options or "tokens" in options:
            pieces = [bytes.fromhex(piece) for piece in options.get("token_bytes", ())]
            model = cls.of_tokens(pieces or [piece.encode() for piece in options["tokens"]])
        else:
            outputs = options.get("outputs") or [""]
            model = cls.saying(*(outputs if n_output is None else outputs[n_output : n_output + 1]))
        model.by_prompt = {k: model.vocab.encode_special(v) for k, v in options.get("by_prompt", {}).items()}
        model.delay_s = options.get("delay_ms", 0) / 1000
        if options.get("gguf_meta", {}).get("add_bos_token"):
            assert isinstance(model.vocab, FakeVocab)
            model.vocab.bos = (model.vocab.control[BOS], BOS)
        return model


class _WatchedStream(LocalStream):
    def __init__(self, engine: Engine, request: GenerationRequest, unfinished: set[int]) -> None:
        self._unfinished = unfinished
        unfinished.add(request.request_id)
        super().__init__(engine, request)

    def _sink(self, event: TokenEvent) -> None:
        super()._sink(event)
        if event.finish is not None:
            self._unfinished.discard(event.request_id)


class RecordingClient(LocalClient):
    """The client of an engine in this process that keeps every request, and knows which of them have not ended."""

    def __init__(self, engine: Engine, vocab: Vocab, name: str = "recorded") -> None:
        self.requests: list[GenerationRequest] = []
        self.unfinished: set[int] = set()
        super().__init__(engine, vocab, name)

    def submit(self, request: GenerationRequest) -> LocalStream:
        self.requests.append(request)
        return _WatchedStream(self._engine, request, self.unfinished)

    @property
    def typing(self) -> list[GenerationRequest]:
        """What answered somebody: without what was prepared in the background."""
        return [request for request in self.requests if request.priority is Priority.TYPING]


class ScriptedClient(RecordingClient):
    """gate: steps of the model wait for it. threads: identities of all threads that entered the backend."""

    def __init__(self, model: Model, config: EngineConfig) -> None:
        self.model = model
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[int] = set()
        self.on_step: Callable[[list[Row]], None] = lambda rows: None
        self._book: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self._n_new = 0
        n_seq = config.n_sequences + 1
        self.backend = FakeBackend(model.vocab, n_ctx=config.n_ctx * n_seq, n_batch=64, n_seq_max=n_seq)
        self.backend.script_always = self._say
        self.backend.on_decode = self._before_step
        engine = Engine(
            self.backend, n_ctx=config.n_ctx, n_sequences=config.n_sequences, costs=Costs(prefill_ms_per_token=1.0, step_ms=1.0)
        )
        super().__init__(engine, model.vocab, "scripted")

    def submit(self, request: GenerationRequest) -> LocalStream:
        if request.priority is Priority.TYPING or (request.priority is Priority.PREFETCH and request.n_max):
            says = self._says(request, len(self.typing))
            self._book.append((request.tokens, self.model.vocab.encode(request.heal) + says))
            self._n_new += 1
        return super().submit(request)

    def _says(self, request: GenerationRequest, n_before: int) -> tuple[int, ...]:
        prompt = self.model.vocab.text(request.tokens).decode("utf-8", "replace") + request.heal.decode("utf-8", "replace")
        for key, says in self.model.by_prompt.items():
            if key in prompt:
                return says
        return self.model.says[min(n_before, len(self.model.says) - 1)]

    def _say(self, tokens: tuple[int, ...]) -> int | None:
        """The latest script that these tokens are on. On the engine's thread."""
        for prompt, script in reversed(list(self._book)):
            said = tokens[len(prompt) :]
            if tokens[: len(prompt)] != prompt:
                continue
            if said == script[: len(said)]:
                if len(said) < len(script):
                    return script[len(said)]
                return script[-1] if self.model.endless else self.model.vocab.eos
            if self.model.endless and script and said[: len(script)] == script and set(said[len(script) :]) == {script[-1]}:
                return script[-1]
        return None

    def _before_step(self, rows: list[Row]) -> None:
        self.threads.add(threading.get_ident())
        self.gate.wait()
        self.on_step(rows)
        if self.model.step_s:
            time.sleep(self.model.step_s)
        if self._n_new and self.model.delay_s:
            self._n_new -= 1
            time.sleep(self.model.delay_s)


@dataclass(frozen=True, slots=True)
class SeenPrompt:
    """A prompt as the model sees it. header: the file's path, control tokens by name. before: the prefix section, the text
    behind the middle marker and the healing bytes, joined. after: the suffix section."""

    tokens: tuple[int, ...]
    header: str
    prefix: str
    typed: str
    heal: str
    after: str

    @property
    def before(self) -> str:
        return self.prefix + self.typed + self.heal

    @classmethod
    def of(cls, request: GenerationRequest, vocab: Vocab) -> SeenPrompt:
        """Asserts what holds for every prompt: the family's header or none, PRE … SUF … MID once each and in this order, BOS at
        most once and at the beginning only, every other token is text."""
        fim, tokens = vocab.fim, request.tokens
        assert fim is not None
        names = {entry[0]: entry[1] for entry in fim.header if not isinstance(entry, str)}
        begin = 0 if vocab.bos is None else 1
        if begin:
            assert vocab.bos is not None and tokens[0] == vocab.bos[0], "BOS is missing"
        prefix, suffix, middle = markers_of(fim)
        at = tokens.index(prefix)
        header = tokens[begin:at]
        assert not header or [t for t in header if t in names] == list(names), f"not the family's header: {header}"
        assert [t for t in header if t in vocab.stop_tokens and t not in names] == [], "a strange control token in the header"
        marks = [t for t in tokens[at:] if t in vocab.stop_tokens]
        assert marks == [prefix, suffix, middle], f"control tokens of the prompt: {marks}"
        n_suffix, n_middle = tokens.index(suffix), tokens.index(middle)

        def text(part: Sequence[int]) -> str:
            return b"".join(vocab.pieces[t] for t in part).decode()

        return cls(
            tokens,
            "".join(names.get(t) or text((t,)) for t in header),
            text(tokens[at + 1 : n_suffix]),
            text(tokens[n_middle + 1 :]),
            request.heal.decode(),
            text(tokens[n_suffix + 1 : n_middle]),
        )
