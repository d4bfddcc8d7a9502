"""draft, and state-restore with a draft: models that draft for another one, and what of a draft stays."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.backend import Vocab
from inference.config import EngineConfig
from inference.costs import CostTable
from inference.drafts.draft import Draft
from inference.drafts.drafting import Drafting
from inference.drafts.model import DraftModel
from inference.drafts.trail import Trail
from inference.engine import Engine
from inference.healing import HealingIndex
from inference.llama.opening import open_engine
from inference.memory_report import MemoryReport
from inference.run import Run
from inference.types import Costs, GenerationRequest, Priority, TokenEvent
from tests.cases.case import Case
from tests.cases.drivers.registry import driver
from tests.cases.logs import Logs
from tests.cases.scene import Scene
from tests.cases.scripted import RecordingClient
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.tiny_gguf import Vocabulary, bpe_vocabulary, sentencepiece_vocabulary, write_tiny

N_CTX, N_NEW, N_FORCED = 512, 12, 4
PROMPT = tuple(20 + i % 60 for i in range(90))


def open_pair(
    home: Path, target: Path, draft: Path | None, tell: Callable[[MemoryReport], None] = lambda report: None, **more: Any
) -> Engine:
    """As a server opens it, and it knows what is saved. What can be drafted is drafted, whatever it costs."""
    config = EngineConfig(
        n_ctx=N_CTX, n_sequences=2, n_threads=1, n_gpu_layers=0, draft_model=str(draft) if draft else "none", **more
    )  # fmt: skip
    engine, _ = open_engine(config, target, home / "cache", on_memory=tell)
    if draft is not None:
        assert engine.drafting is not None
        engine.drafting._sources, engine.drafting._forced = (), N_FORCED
    while engine._keeper is not None and engine._keeper._archive.is_opening:
        time.sleep(0.002)
    return engine


def say(engine: Engine, number: int = 1, tokens: tuple[int, ...] = PROMPT) -> TokenEvent:
    """The last event; its text is all that was said."""
    events: list[TokenEvent] = []
    engine.submit(GenerationRequest(number, tokens, n_max=N_NEW), events.append)
    while not events or events[-1].finish is None:
        engine.step()
    return replace(events[-1], text="".join(event.text for event in events))


def end(engine: Engine) -> None:
    engine.close()
    engine.run_forever()


def vocabulary(words: str) -> tuple[Vocabulary, str]:
    """Of the draft in a pair, and its architecture."""
    usual = bpe_vocabulary()
    if words == "same vocab":
        return usual, "qwen2"
    if words == "size differs by padding only":
        return replace(
            usual, tokens=(*usual.tokens, *(f"[PAD{i}]" for i in range(128))), types=(*usual.types, *[1] * 128)
        ), "qwen2"
    if words == "same size, one token text differs":
        return usual.changed(290), "qwen2"
    assert words == "other tokenizer type", words
    return sentencepiece_vocabulary(), "llama"


@driver("draft-01")
async def pairs_of_vocabularies(case: Case) -> str:
    told = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        target = write_tiny(home / "target.gguf", arch="qwen2")
        plain = open_pair(home, target, None)
        want = say(plain)
        end(plain)
        for i, words in enumerate(case.input["setup"]["pairs"]):
            spoken, arch = vocabulary(words)
            draft = write_tiny(home / f"draft-{i}.gguf", arch=arch, vocabulary=spoken, seed=i)
            reports: list[MemoryReport] = []
            with Logs() as logs:
                engine = open_pair(home, target, draft, reports.append)
            got, stats = say(engine), engine.stats()
            fits = words in ("same vocab", "size differs by padding only")
            assert (engine.drafting is not None and engine.drafting.computed is not None) == fits, words
            assert bool(stats.why_no_draft_model) != fits, f"{words}: {stats.why_no_draft_model!r}"
            warnings = [line for line in logs.above(logging.INFO) if "draft" in line]
            notices = [sentence for sentence in reports[-1].notices if "draft" in sentence]
            assert len(warnings) == len(notices) == int(not fits), f"{words}: {len(warnings)} warnings, {notices}"
            assert (got.text, got.finish) == (want.text, want.finish), f"{words}: another text"
            assert bool(got.stats.n_drafted) == fits
            end(engine)
            told.append(f"{words}: {'drafts' if fits else stats.why_no_draft_model}")
    return "; ".join(told)


class _Told:
    """A source that says the same behind every prompt."""

    name = "told"

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = tuple(tokens)

    def propose(self, run: Run, trail: Trail, n: int) -> Draft | None:
        rest = self._tokens[len(trail.chosen) :][:n]
        return Draft(self.name, rest, (0,) * len(rest)) if rest else None


class _DraftedClient(RecordingClient):
    """Says `answer` behind every prompt, with drafts of `drafted`; a control token in a draft is what its source would say."""

    def __init__(self, vocab: FakeVocab, answer: tuple[int, ...], drafted: Sequence[int]) -> None:
        self.backend = FakeBackend(vocab, n_ctx=2048, n_batch=256)
        self._answer = answer
        self._prompts: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.backend.script_always = self._say

        def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
            made = Drafting(vocab, table, healing, sources=[_Told(drafted)], forced=len(drafted))
            made._fitting = lambda run, draft: draft if draft is not None and draft.tokens else None  # type: ignore[method-assign]
            return made

        engine = Engine(self.backend, n_ctx=1024, n_sequences=2, costs=Costs(1.0, 1.0), make_drafting=make)
        super().__init__(engine, vocab, "drafted")

    def submit(self, request: GenerationRequest) -> Any:
        assert isinstance(self.backend.vocab, FakeVocab)
        self._prompts.append((request.tokens, (*self.backend.vocab.encode(request.heal), *self._answer)))
        return super().submit(request)

    def _say(self, tokens: tuple[int, ...]) -> int | None:
        for prompt, script in reversed(self._prompts):
            said = tokens[len(prompt) :]
            if tokens[: len(prompt)] == prompt and said == script[: len(said)]:
                return script[len(said)] if len(said) < len(script) else self.backend.vocab.eos
        return None


@driver("draft-02")
async def accepted_behind_the_end(case: Case) -> str:
    """The draft goes on behind the end of generation: nothing of that stays in the cache."""
    model, document = case.input["model"], case.input["document"]
    pieces = [text for text in model["draft_tokens"] if text != "<EOG>"]
    vocab = FakeVocab([piece.encode() for piece in pieces])
    ids = {piece: token for token, piece in enumerate(vocab.pieces) if piece}

    def tokens_of(texts: Sequence[str]) -> tuple[int, ...]:
        return tuple(vocab.eos if text == "<EOG>" else ids[text.encode()] for text in texts)

    answer = tokens_of([text for text in model["target_tokens"] if text != "<EOG>"])
    clients: list[_DraftedClient] = []

    def opened(config: EngineConfig, _on_progress: object) -> _DraftedClient:
        clients.append(_DraftedClient(vocab, answer, tokens_of(model["draft_tokens"])))
        return clients[-1]

    async with Scene(options={"typed_through": False, "adopt_ms": 0}, open_client=opened) as scene:
        scene.open(document["text"], document["uri"])
        cursor = document["cursor"]
        after = await scene.accept(cursor["line"], cursor["character"], uri=document["uri"])
        assert after == case.expected["document_after_accept"], repr(after)
        await scene.idle()
        client = clients[0]
        request = client.typing[-1]
        drafted = [row for rows in client.backend.decoded for row in rows if row.token == vocab.eos]
        assert drafted, "the model was never asked to check what stands behind its end"
        held = next(
            client.backend.tokens(s) for s in range(4) if client.backend.tokens(s)[: len(request.tokens)] == [*request.tokens]
        )
        said = [*request.tokens, *vocab.encode(request.heal), *answer]
        assert held == said, f"{len(held)} cells for {len(said)} tokens"
        n_before = len(client.requests)
        scene.change({"text": after}, uri=document["uri"])
        await scene.ask(cursor["line"], cursor["character"] + 1, uri=document["uri"])
        await scene.idle()
        assert any(r.priority is Priority.TYPING for r in client.requests[n_before:]), "the second place was never asked about"
        n_edit = len(vocab.encode(b"1")) + len(request.heal) + 1
        n_evaluated = client._engine.counters().prompt - len(request.tokens)
        assert n_evaluated <= n_edit, f"{n_evaluated} tokens evaluated again"
    return f"{len(held)} cells, of which the answer has {len(answer)}; {n_evaluated} tokens evaluated for the next request"


@driver("state-restore-05")
async def a_draft_behind_a_restored_target(case: Case) -> str:
    """The target's prompt is put back from disk. The draft's is not saved: it is evaluated anew before anything is drafted."""
    assert case.input["setup"]["draft_model"] is True
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        target = write_tiny(home / "target.gguf", arch="qwen2")
        draft = write_tiny(home / "draft.gguf", arch="qwen2")
        prompt = tuple(20 + (i * 7) % 90 for i in range(400))
        plain = open_pair(home, target, None, prompt_cache=False)
        want = say(plain, tokens=prompt)
        end(plain)
        first = open_pair(home, target, draft)
        warm = say(first, tokens=prompt)
        end(first)  # saves what is worth it
        second = open_pair(home, target, draft)
        restored = say(second, tokens=prompt)
        stats = second.stats()
        assert stats.n_disk_hits == 1 and restored.stats.n_reused >= len(prompt) - 1, f"{restored.stats.n_reused} reused"
        assert want.text == warm.text == restored.text and want.finish is restored.finish, "another text"
        assert restored.stats.n_drafted and restored.stats.n_accepted >= 0.8 * restored.stats.n_drafted, "the draft was stale"
        assert second.drafting is not None and isinstance(second.drafting.computed, DraftModel)
        mirrored = max(second.drafting.computed.cells.sequences, key=lambda s: len(s.tokens))
        held = next(s for s in second.kv.sequences if s.tokens[: len(prompt)] == [*prompt])
        n = min(len(mirrored.tokens), len(held.tokens))
        assert n >= len(prompt) and mirrored.tokens[:n] == held.tokens[:n], "the two hold other tokens"
        end(second)
    stood = f"{restored.stats.n_accepted} of {restored.stats.n_drafted} drafted stood"
    return f"{restored.stats.n_reused} of {len(prompt)} tokens put back; {stood}"
