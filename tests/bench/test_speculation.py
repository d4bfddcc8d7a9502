"""The bench of drafts on a tiny model: the tasks are the same every time, and every figure has its place and meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.gpu.drafting import parser as drafting_parser
from bench.gpu.drafting import simulate
from bench.gpu.random_model import SHAPES
from bench.gpu.random_model import write as write_shape
from bench.progress import Progress
from bench.speculation import LEAST_PAIRS, parser, ratios, table
from bench.speculation_rig import OFF, Rig, StandingTable
from bench.speculation_tasks import CHANGED, NEW, REPEATED, tasks
from inference.config import EngineConfig
from inference.drafts.found import LOOKUP, PREVIOUS
from inference.drafts.model import MODEL
from inference.llama.model import LlamaBackend
from inference.types import Costs
from tests.support.tiny_gguf import write_tiny

CPU = ((1, 27.0), (2, 48.0), (4, 66.0), (8, 110.0), (16, 174.0), (32, 322.0))


def test_the_tasks_are_the_same_every_time_and_what_they_say() -> None:
    made = tasks(64, 5)
    assert made == tasks(64, 5) and list(made) == [NEW, REPEATED, CHANGED]
    assert all(len(places) == 5 for places in made.values())
    for place in made[NEW]:
        assert place.before.rstrip().endswith(":") and place.after and not place.earlier
    for place in made[REPEATED]:
        assert place.before.count("metrics.count") == place.before.count("def ") - 1 >= 2 and "return self._" in place.after
    for place in made[CHANGED]:
        assert place.earlier and place.earlier != place.before


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    path = write_tiny(tmp_path / "tiny.gguf", arch="qwen2", n_ctx=4096)
    config = EngineConfig(n_ctx=4096, n_sequences=2, n_threads=1, n_gpu_layers=0)
    target, draft = LlamaBackend(config, path), LlamaBackend(config, path)
    return Rig(
        target, StandingTable(Costs(8, 27), CPU), draft, StandingTable(Costs(0.4, 1.0), ((1, 1.0), (2, 1.2), (512, 50.0)))
    )


def test_every_figure_is_there_and_counts_what_it_says(rig: Rig) -> None:
    places = tasks(12, 1)[REPEATED]
    plain, forced = (rig.run(places, kind) for kind in (OFF, MODEL))
    assert plain.n_steps >= plain.n_tokens - 1 > 4 and plain.cost == plain.n_steps * 27.0
    assert forced.n_steps <= plain.n_steps - forced.figures[0].n_accepted < plain.n_steps, "the draft is the target itself"
    assert rig.positions[0][0] >= rig.positions[0][1] > 0
    assert forced.acceptance[MODEL] > 0.8 and not plain.figures
    made = ratios(rig, places, 1, Progress("pass"), REPEATED)
    assert set(made) == {"steps_ratio", "cost_ratio_controller", "clock_ratio_controller", "acceptance"}
    assert set(made["steps_ratio"]) == set(made["acceptance"]) == {PREVIOUS, LOOKUP, MODEL}
    assert made["steps_ratio"][MODEL] == pytest.approx(plain.n_steps / forced.n_steps, rel=0.01)
    assert made["clock_ratio_controller"] > 0 and made["cost_ratio_controller"] <= 1.3
    said = table({"model": "m", "draft": "d", "tasks": {REPEATED: made}})
    assert REPEATED in said and "<= 1.02" in said


def test_large_shapes_are_simulated_by_a_coin_with_every_step_made(tmp_path: Path) -> None:
    path = write_shape(tmp_path / "shape.gguf", SHAPES["tiny"], "Q8_0")
    config = EngineConfig(n_ctx=512, n_sequences=1, n_threads=1, n_gpu_layers=0)
    target, draft = LlamaBackend(config, path), LlamaBackend(config, path)
    tables = (StandingTable(Costs(1, 20), ((1, 20.0), (64, 21.0))), StandingTable(Costs(0.1, 1), ((1, 1.0), (512, 3.0))))
    for rate, least, most in ((1.0, 5.0, 17.0), (0.0, 0.9, 1.0)):
        made = simulate(target, draft, tables, ("a", "b"), rates=(rate,), n_tokens=60, n_prompt=20, n_pairs=1)
        assert made.is_simulated and made.accepted == pytest.approx(rate, abs=0.01)
        assert least <= made.per_step <= most + 0.1, made
    assert drafting_parser().parse_args(["--rates", "0.5,0.4"]).rates == (0.5, 0.4)


def test_the_command_line_has_what_is_promised() -> None:
    options = parser().parse_args([])
    assert options.pairs == LEAST_PAIRS >= 7 and not options.json and options.draft
    assert parser().parse_args(["--model", "a", "--draft", "none", "--json"]).draft == "none"
