"""Drafts on tiny real models: with a draft model of whatever quality, and with every other source, greedy text is that without.

By the near-tie rule of `tests.support.near_tie`; the books of target and draft are compared with their cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.backend import Outcome, Vocab
from inference.config import EngineConfig
from inference.costs import CostTable
from inference.drafts.compatible import why_not_compatible
from inference.drafts.draft import ComputedSource, Source
from inference.drafts.drafting import Drafting
from inference.drafts.found import Lookup, Previous
from inference.drafts.model import DraftModel
from inference.engine import MakeDrafting
from inference.healing import HealingIndex
from inference.llama.draft import make_drafting, open_draft
from inference.llama.model import LlamaBackend
from inference.types import Costs, GenerationRequest
from tests.inference.conftest import Open
from tests.inference.test_equality_tiny import N_CTX, ODD, WHOLE, Typist, actions
from tests.support.near_tie import Comparer, Driver, run_cold
from tests.support.tiny_gguf import bpe_vocabulary, sentencepiece_vocabulary, write_tiny

SETTINGS = EngineConfig(n_ctx=N_CTX, n_sequences=3, n_threads=1, n_gpu_layers=0)


@pytest.fixture(scope="module")
def partners(tiny_dir: Path, tiny_models: dict[str, Path]) -> Iterator[dict[str, LlamaBackend]]:
    """Draft models for the tiny qwen2: itself, which is nearly always right, and noise, which never is."""
    paths = {"itself": tiny_models["qwen2"], "noise": write_tiny(tiny_dir / "noise.gguf", arch="qwen2", seed=7, n_layer=1)}
    opened = {name: LlamaBackend(replace(SETTINGS, n_sequences=2), path) for name, path in paths.items()}
    yield opened
    for backend in opened.values():
        backend.close()


def drafting(partner: LlamaBackend | None, *, forced: int, made: list[Drafting]) -> MakeDrafting:
    def make(vocab: Vocab, table: CostTable, healing: HealingIndex) -> Drafting:
        computed: ComputedSource | None = None
        if partner is not None:
            for seq in range(partner.n_seq_max):
                partner.truncate(seq, 0)
            computed = DraftModel(partner, CostTable(Costs(1.0, 1.0)), healing, n_ctx=N_CTX, confident=0.0)
        sources: list[Source] = [] if partner is not None else [Previous(healing), Lookup(healing)]
        made.append(Drafting(vocab, table, healing, sources=sources, computed=computed, forced=forced))
        return made[-1]

    return make


def check_draft(drafting: Drafting, backend: LlamaBackend) -> None:
    """What is recorded of the draft's sequences is what its cells hold."""
    assert isinstance(drafting.computed, DraftModel)
    for sequence in drafting.computed.cells.sequences:
        assert len(sequence.tokens) == backend.seq_length(sequence.seq)


@pytest.mark.parametrize("name", ["itself", "noise", "found"])
@settings(max_examples=5, deadline=None)
@given(actions=actions, forced=st.sampled_from([1, 3, 7]), n_stowed=st.sampled_from([0, 8]), n_sequences=st.integers(1, 3))
def test_any_interleaving_with_drafts_says_what_each_request_says_alone(
    open_tiny: Open, partners: dict[str, LlamaBackend], name: str, actions, forced: int, n_stowed: int, n_sequences: int
) -> None:
    made: list[Drafting] = []
    backend = open_tiny("qwen2", n_ctx=N_CTX)
    driver = Driver(
        backend, n_chunk=ODD, n_ctx=N_CTX, n_sequences=n_sequences, n_stowed=n_stowed,
        make_drafting=drafting(partners.get(name), forced=forced, made=made),
    )  # fmt: skip
    typist = Typist(driver)
    for action in actions:
        typist.act(action)
        if name in partners:
            check_draft(made[0], partners[name])
    ran = typist.finish()
    comparer = Comparer(backend.vocab)
    for i, said in ran.said.items():
        alone = run_cold(lambda rows: Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX, rows=rows), [typist.sent[i]])
        comparer.compare(alone.said[i], said, alone.rows, ran.rows)


def test_the_target_itself_as_draft_is_nearly_always_right_and_divides_the_steps(
    open_tiny: Open, partners: dict[str, LlamaBackend]
) -> None:
    made: list[Drafting] = []
    backend = open_tiny("qwen2", n_ctx=N_CTX)
    driver = Driver(backend, n_chunk=ODD, n_ctx=N_CTX, make_drafting=drafting(partners["itself"], forced=7, made=made))
    for i in range(1, 5):
        driver.submit(GenerationRequest(i, tuple(range(10 * i, 10 * i + 30)), n_max=24))
        driver.drain()
    (figures,) = made[0].figures
    n_generated = sum(driver.events[i][-1].stats.n_generated for i in range(1, 5))
    assert figures.n_accepted >= 0.9 * figures.n_drafted
    assert n_generated / sum(driver.events[i][-1].stats.n_steps - 2 for i in range(1, 5)) > 4
    check_draft(made[0], partners["itself"])


def test_the_draft_stands_where_its_target_does_and_shares_what_another_of_its_sequences_has(
    open_tiny: Open, partners: dict[str, LlamaBackend]
) -> None:
    made: list[Drafting] = []
    backend, partner = open_tiny("qwen2", n_ctx=N_CTX), partners["itself"]
    driver = Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX, make_drafting=drafting(partner, forced=3, made=made))
    prompt = tuple(20 + i % 50 for i in range(100))
    n_rows: list[int] = []
    decode = partner.decode
    partner.decode = lambda rows: (n_rows.append(len(rows)), decode(rows))[1]  # type: ignore[method-assign, func-returns-value]
    try:
        driver.submit(GenerationRequest(1, prompt, n_max=8))
        driver.submit(GenerationRequest(2, (*prompt, 7), n_max=8))
        driver.drain()
    finally:
        partner.decode = decode  # type: ignore[method-assign]
    assert max(n_rows) >= len(prompt) - 1 and sum(n > len(prompt) / 2 for n in n_rows) == 1
    check_draft(made[0], partner)


def test_a_draft_that_fails_costs_drafts_only(open_tiny: Open, partners: dict[str, LlamaBackend]) -> None:
    made: list[Drafting] = []
    backend, partner = open_tiny("qwen2", n_ctx=N_CTX), partners["itself"]
    driver = Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX, make_drafting=drafting(partner, forced=3, made=made))
    decode = partner.decode
    partner.decode = lambda rows: Outcome.FATAL  # type: ignore[method-assign]
    try:
        driver.submit(GenerationRequest(1, tuple(range(30, 60)), n_max=12))
        driver.drain()
    finally:
        partner.decode = decode  # type: ignore[method-assign]
    assert made[0].computed is not None and made[0].computed.is_lost
    alone = run_cold(lambda rows: Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX, rows=rows), [driver.said(1).request])
    assert driver.said(1).tokens == alone.said[1].tokens


@pytest.mark.parametrize("arch", ["gemma2", "mamba"])
def test_models_that_can_not_roll_back_draft_nothing(open_tiny: Open, arch: str) -> None:
    made: list[Drafting] = []
    driver = Driver(open_tiny(arch, n_ctx=N_CTX), n_chunk=WHOLE, n_ctx=N_CTX, make_drafting=drafting(None, forced=3, made=made))
    driver.submit(GenerationRequest(1, tuple(30 + i % 3 for i in range(40)), n_max=12))
    driver.drain()
    assert not made and driver.engine.counters().drafted == 0


def test_what_the_draft_s_steps_have_taught_is_there_at_the_next_start(
    open_tiny: Open, tiny_models: dict[str, Path], tmp_path: Path
) -> None:
    target, config = open_tiny("qwen2", n_ctx=N_CTX), replace(SETTINGS, n_threads=0, prompt_cache=False)
    rows = []
    for _ in range(2):
        beside = open_draft(config, tiny_models["qwen2"], target, tmp_path)
        make = make_drafting(config, beside, N_CTX, None)
        assert make is not None and beside.table is not None
        rows.append(beside.table.rows)
        for _ in range(3):
            beside.table.observe(3, 1234.5)
        rows.append(beside.table.rows)
        make(target.vocab, CostTable(Costs(1, 1)), HealingIndex(target.vocab.pieces, target.vocab.stop_tokens)).close()
    assert (3, 1234.5) in rows[1] and rows[2] == rows[1] != rows[0]


def test_what_differs_between_vocabularies_is_told(tiny_dir: Path, open_tiny: Open) -> None:
    target, usual = open_tiny("qwen2", n_ctx=N_CTX), bpe_vocabulary()
    more = tuple(f"[PAD{i}]" for i in range(64))
    partners = {
        "": usual,
        " ": replace(usual, tokens=(*usual.tokens, *more), types=(*usual.types, *[1] * 64)),
        "token 300": usual.changed(300),
        "splits": replace(usual, pre="llama-bpe"),
        "(default": sentencepiece_vocabulary(),
    }
    for i, (said, vocabulary) in enumerate(partners.items()):
        path = write_tiny(
            tiny_dir / f"partner-{i}.gguf", arch="qwen2" if said != "(default" else "llama", vocabulary=vocabulary
        )
        beside = open_draft(SETTINGS, path, target, tiny_dir)
        if beside.backend is not None:
            beside.backend.close()
        assert said.strip() in beside.why_not and bool(beside.why_not) == bool(said.strip()), (said, beside.why_not)
        assert ("draft_model" in beside.notice) == bool(beside.why_not)
    assert why_not_compatible(target.vocab, target.vocab) == ""
    assert "can't drop" in open_draft(SETTINGS, tiny_dir / "mamba.gguf", target, tiny_dir).why_not
    assert open_draft(SETTINGS, None, target, tiny_dir).notice == ""
    assert open_draft(SETTINGS, tiny_dir / "nothing.gguf", target, tiny_dir).why_not
