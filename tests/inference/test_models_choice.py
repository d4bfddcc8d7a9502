"""Which model runs when none is named: the rule over given facts, and what is said where the best one is not on disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.config import EngineConfig
from inference.models import records, registry
from inference.models.choice import AUTO, Choice, Verdict, choose, locate
from inference.models.estimate import reply
from inference.models.machine import Machine, Step
from inference.models.model import Model, Shape, Terms
from inference.models.records import Record
from inference.models.registry import MODELS
from inference.types import EngineError

GB = 10**9
SMALL, LARGE = registry.find("qwen2.5-coder-0.5b"), registry.find("qwen2.5-coder-1.5b")
TWO_CORES = Machine(free_bytes=24 * GB, is_gpu=False, n_cpus=2)


def verdict(choice: Choice, model_id: str) -> Verdict:
    return next(each for each in choice.verdicts if each.model.id == model_id)


# --- the time of a reply


def test_the_two_models_that_the_line_is_made_of() -> None:
    assert reply(SMALL, TWO_CORES, MODELS).ms == pytest.approx(48 + 11 * 27, abs=0.1)
    assert reply(LARGE, TWO_CORES, MODELS).ms == pytest.approx(69 + 11 * 40, abs=0.1)


def test_what_was_measured_for_the_model_counts() -> None:
    machine = replace(TWO_CORES, steps=(Step(SMALL.bytes, 30.0), Step(LARGE.bytes, 41.0)))
    small, large = reply(SMALL, machine, MODELS), reply(LARGE, machine, MODELS)
    assert (small.basis, large.basis) == ("measured", "measured")
    assert small.ms == pytest.approx(30 * 48 / 27 + 11 * 30, rel=1e-3)
    assert large.ms == pytest.approx(41 * 69 / 40 + 11 * 41, rel=1e-3)


def test_the_step_of_two_rows_counts_where_it_was_measured() -> None:
    machine = replace(TWO_CORES, steps=(Step(SMALL.bytes, 30.0, 70.0),))
    assert reply(SMALL, machine, MODELS).ms == pytest.approx(70 + 11 * 30)


def test_what_was_measured_for_another_scales_the_line() -> None:
    machine = replace(TWO_CORES, steps=(Step(SMALL.bytes, 54.0),))  # twice as slow
    assert reply(LARGE, machine, MODELS).ms == pytest.approx(2 * 509, rel=1e-3)
    assert reply(LARGE, machine, MODELS).basis == "estimated from qwen2.5-coder-0.5b"


def test_the_nearest_of_those_measured_scales() -> None:
    machine = replace(TWO_CORES, steps=(Step(SMALL.bytes, 27.0), Step(LARGE.bytes, 80.0)))
    large = registry.find("granite-code-3b")
    assert reply(large, machine, MODELS).basis == "estimated from qwen2.5-coder-1.5b"


def test_what_was_measured_for_an_unknown_file_says_nothing() -> None:
    machine = replace(TWO_CORES, steps=(Step(513_312, 0.09),))
    assert reply(SMALL, machine, MODELS) == reply(SMALL, TWO_CORES, MODELS)


def test_cores_scale_up_to_eight() -> None:
    times = [reply(SMALL, replace(TWO_CORES, n_cpus=n), MODELS).ms for n in (1, 2, 4, 8, 64)]
    assert times[0] == pytest.approx(2 * times[1]) and times[2] == pytest.approx(times[1] / 2)
    assert times[3] == times[4] == pytest.approx(times[1] / 4)


def test_a_mixture_of_experts_is_as_fast_as_what_is_active() -> None:
    mixture, dense = registry.find("qwen3-coder-30b-a3b"), registry.find("qwen2.5-coder-32b")
    assert reply(mixture, TWO_CORES, MODELS).ms < 0.2 * reply(dense, TWO_CORES, MODELS).ms


def test_a_graphics_card_is_not_judged_by_its_processor() -> None:
    card = Machine(free_bytes=24 * GB, is_gpu=True, n_cpus=2)
    model = registry.find("qwen2.5-coder-7b")
    assert reply(model, card, MODELS).ms < 400 < reply(model, TWO_CORES, MODELS).ms


# --- the choice


def test_two_cores_get_the_smallest() -> None:
    choice = choose(MODELS, TWO_CORES, 400)
    assert choice.chosen == SMALL
    assert choice.why == (
        "the largest that fits: 542 MB of 24.0 GB free memory, a reply takes about 345 ms "
        "(estimated for 2 CPUs, nothing measured yet), the deadline is 400 ms"
    )
    assert verdict(choice, "qwen2.5-coder-1.5b").why_not == (
        "a reply takes about 509 ms (estimated for 2 CPUs, nothing measured yet), the deadline is 400 ms"
    )
    assert verdict(choice, "qwen2.5-coder-32b").why_not == (
        "needs 20.9 GB with 4,096 tokens, half of the free memory is 12.0 GB"
    )


@pytest.mark.parametrize(("deadline", "model"), [(345, SMALL), (508, SMALL), (509, LARGE)])
def test_the_deadline_decides(deadline: int, model: Model) -> None:
    assert choose((SMALL, LARGE), TWO_CORES, deadline + 0.01).chosen == model


def test_without_a_deadline_memory_alone_decides() -> None:
    assert choose(MODELS, TWO_CORES, 0).chosen.id == "qwen2.5-coder-14b"


def test_weights_and_cache_have_to_fit_into_half() -> None:
    needed = SMALL.bytes + 4096 * 12_288
    assert SMALL.needed_bytes(4096) == needed
    fits = choose((SMALL,), replace(TWO_CORES, free_bytes=2 * needed), 400)
    assert verdict(fits, SMALL.id).fits
    tight = choose((SMALL,), replace(TWO_CORES, free_bytes=2 * needed - 2), 400)
    assert verdict(tight, SMALL.id).is_too_large


def test_the_memory_of_a_graphics_card_counts_if_there_is_one() -> None:
    steps = (Step(SMALL.bytes, 1.5),)
    card = Machine(free_bytes=48 * GB, is_gpu=True, n_cpus=2, steps=steps)
    assert choose(MODELS, card, 400).chosen.id == "qwen2.5-coder-32b"
    choice = choose(MODELS, replace(card, free_bytes=12 * GB), 400)
    assert "free GPU memory" in choice.why
    assert choice.chosen.id == "seed-coder-8b"


def test_where_nothing_fits_the_smallest_is_taken_and_that_is_said() -> None:
    slow = replace(TWO_CORES, n_cpus=1)
    choice = choose(MODELS, slow, 400)
    assert choice.chosen == SMALL
    assert choice.why.startswith("the smallest; none fits (a reply takes about 690 ms")
    assert choose(MODELS, replace(TWO_CORES, free_bytes=0), 400).chosen == SMALL


def test_a_licence_that_restricts_is_never_chosen_automatically() -> None:
    machine = Machine(free_bytes=10**15, is_gpu=False, n_cpus=64, steps=(Step(SMALL.bytes, 0.001),))
    choice = choose(MODELS, machine, 400)
    assert choice.chosen.id == "qwen2.5-coder-32b"
    for each in choice.verdicts:
        assert each.is_out == (each.model.terms is not Terms.OPEN or each.model.shape is None), each.model.id
    assert "forbids commercial use" in verdict(choice, "codestral-22b").why_not
    assert "rules to accept" in verdict(choice, "codegemma-2b").why_not
    with pytest.raises(EngineError, match="No known model may be chosen"):
        choose([registry.find("codestral-22b")], machine, 400)


machines = st.builds(
    Machine,
    free_bytes=st.integers(0, 200 * GB),
    is_gpu=st.booleans(),
    n_cpus=st.integers(1, 128),
    steps=st.lists(
        st.builds(Step, n_bytes=st.sampled_from([m.bytes for m in MODELS]), ms=st.floats(0.1, 1000)), max_size=3
    ).map(tuple),
)


@given(machine=machines, deadline=st.integers(0, 5000))
def test_nothing_larger_than_the_choice_fits(machine: Machine, deadline: int) -> None:
    choice = choose(MODELS, machine, deadline)
    sizes = [each.model.bytes for each in choice.verdicts]
    assert sizes == sorted(sizes, reverse=True)
    assert choice.chosen.terms is Terms.OPEN
    fitting = [each.model for each in choice.verdicts if each.fits]
    assert choice.chosen == (fitting[0] if fitting else SMALL)
    for each in choice.verdicts:
        assert each.fits == (
            not each.is_out
            and each.needed_bytes is not None
            and each.needed_bytes <= machine.free_bytes // 2
            and (deadline == 0 or each.reply.ms <= deadline)
        )


# --- from the setting to a file


def toy(model_id: str, n_bytes: int, terms: Terms = Terms.OPEN) -> Model:
    shape = Shape(1, 1, 1, n_bytes)
    return Model(model_id, model_id, f"{model_id}.gguf", n_bytes, "0" * 64, "X", "toy", terms=terms, shape=shape)


TOYS = (toy("a", 100), toy("b", 200), toy("c", 300), toy("d", 400), toy("e", 350, Terms.NON_COMMERCIAL))
ROOM_FOR_C = Machine(free_bytes=2 * (300 + 4096 * 4), is_gpu=False, n_cpus=2)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "MODELS", TOYS)
    directory = tmp_path / "models"
    directory.mkdir()
    return directory


def put(models: Path, *ids: str) -> None:
    for model_id in ids:
        (models / f"{model_id}.gguf").write_bytes(b"G" * registry.find(model_id).bytes)


def located(models: Path, machine: Machine = ROOM_FOR_C, *, model: str = AUTO, deadline: float = 0) -> tuple[str, str]:
    """Name and note; the path is always that of the name."""
    asked: list[int] = []

    def probe(n_gpu_layers: int, cache_dir: Path) -> Machine:
        asked.append(n_gpu_layers)
        return machine

    found = locate(EngineConfig(model=model, models_dir=str(models), n_gpu_layers=7), deadline, models / "cache", probe=probe)
    assert asked == ([7] if model == AUTO else [])
    assert found.path == models / f"{found.name}.gguf"
    return found.name, found.note


def test_the_default_is_left_open() -> None:
    assert EngineConfig().model == AUTO


def test_the_best_is_on_disk(models: Path) -> None:
    put(models, "a", "b", "c", "d", "e")
    name, note = located(models)
    assert name == "c"
    assert note.startswith("c was chosen: the largest that fits")


def test_a_smaller_one_is_on_disk(models: Path) -> None:
    put(models, "a", "b", "d", "e")
    assert located(models) == ("b", "b is used; c is better for this machine: `midfill models pull c`")


def test_one_that_is_slower_than_asked_for_is_better_than_none(models: Path) -> None:
    put(models, "b", "c", "d")
    assert located(models, deadline=0.001)[0] == "b"


@pytest.mark.parametrize("ids", [(), ("d",), ("e",), ("d", "e")])
def test_nothing_that_could_run_is_on_disk(models: Path, ids: tuple[str, ...]) -> None:
    put(models, *ids)
    with pytest.raises(EngineError) as error:
        located(models)
    assert str(error.value) == (
        f"No model that fits this machine is on disk (looked in {models}); run `midfill models pull c`, 0 MB, "
        "or name another with the setting `model`."
    )


def test_a_file_elsewhere_counts_as_on_disk(models: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "blob"
    theirs.write_bytes(b"G" * 300)
    records.save(Record("c", theirs, 300, None, "Ollama"), models)
    found = locate(EngineConfig(models_dir=str(models)), 0, tmp_path, probe=lambda *_: ROOM_FOR_C)
    assert (found.path, found.name) == (theirs, "c")


@pytest.mark.parametrize("named", ["d", "e", " d "])
def test_what_is_named_is_taken_as_named(models: Path, named: str) -> None:
    put(models, "a", "d", "e")
    assert located(models, model=named) == (named.strip(), "")


def test_a_path_is_taken_as_named(models: Path) -> None:
    put(models, "d")
    assert located(models, model=str(models / "d.gguf")) == ("d", "")


def test_what_is_named_and_missing_is_an_error(models: Path) -> None:
    put(models, "a")
    with pytest.raises(EngineError, match="midfill models pull d"):
        located(models, model="d")
