"""Candidates on tiny real models say what a request alone says behind the token they part with, by the near-tie rule."""

from __future__ import annotations

import pytest

from inference.run import Run
from inference.types import FinishReason, GenerationRequest
from tests.inference.conftest import Open
from tests.inference.test_equality_tiny import DOCUMENTS, N_CTX, ODD, WHOLE, archs
from tests.support.feeding import TOLERANCE
from tests.support.layouts import markers_of
from tests.support.near_tie import Comparer, Driver, Ran, Rows, Said, run_cold


@archs
@pytest.mark.parametrize("heal", [b"", b"val"])
def test_each_candidate_is_what_it_would_be_alone(open_tiny: Open, arch: str, heal: bytes) -> None:
    backend = open_tiny(arch, n_ctx=N_CTX)
    fim, comparer = markers_of(backend.vocab.fim), Comparer(backend.vocab)

    def alone(request: GenerationRequest) -> Ran:
        return run_cold(lambda rows: Driver(backend, n_chunk=WHOLE, n_ctx=N_CTX, rows=rows), [request])

    ran: list[tuple[list[Run], Rows]] = []
    for before, after in DOCUMENTS:
        tokens = (fim.prefix, *backend.vocab.encode(before), fim.suffix, *backend.vocab.encode(after), fim.middle)
        driver = Driver(backend, n_chunk=ODD, n_ctx=N_CTX)
        driver.submit(GenerationRequest(1, tokens, heal, 9, n_candidates=3))
        driver.drain()
        last = driver.events[1][-1]
        assert last.finish in (FinishReason.STOP, FinishReason.LENGTH) and 1 <= len(last.ranking) <= 3
        assert all(s.is_idle and not (s.is_branch and s.tokens) for s in driver.engine.kv.sequences)
        candidates = driver.runs[1].candidates
        ran.append((candidates._runs, driver.recording.rows))  # type: ignore[union-attr]
    n_compared = 0
    for (first, *others), rows in ran:
        reference = alone(GenerationRequest(1, first.request.tokens, heal, 9))
        assert comparer.compare(reference.said[1], Said.of(first), reference.rows, rows).noise < TOLERANCE
        for other in others:
            at = next(i for i, token in enumerate(other.path) if first.path[i : i + 1] != [token])
            said, n_beyond = b"", 0
            for token in other.path[first.n_prompt : at + 1]:
                said += backend.vocab.pieces[token]
                n_beyond += len(said) > len(heal)
            request = GenerationRequest(1, tuple(other.path[: at + 1]), heal[len(said) :], 9 - n_beyond)
            reference = alone(request)
            mine = Said(request, tuple(other.path[at + 1 :]), other.finish)
            assert comparer.compare(reference.said[1], mine, reference.rows, rows).noise < TOLERANCE
            n_compared += 1
    assert n_compared or arch == "mamba", "nothing parted from the first: choose other texts"
