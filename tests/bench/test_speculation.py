"""The bench of drafts on a tiny model: the tasks are the same every time, and every figure has its place and meaning."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.case_log import CaseLog
from bench.errors import BenchError
from bench.gpu.drafting import parser as drafting_parser
from bench.gpu.drafting import read_rates, simulate
from bench.gpu.random_model import SHAPES
from bench.gpu.random_model import write as write_shape
from bench.progress import Progress
from bench.revision import ROOT
from bench.speculation import LEAST_PAIRS, Passes, keep_rates, parser, rates_of, ratios, table
from bench.speculation_rig import ALL, OFF, Pass, Rig, Session, StandingTable
from bench.speculation_tasks import CHANGED, NEW, REPEATED, Place, tasks
from inference.config import EngineConfig
from inference.drafts.draft import Draft
from inference.drafts.found import LOOKUP, PREVIOUS
from inference.drafts.model import MODEL
from inference.llama.model import LlamaBackend
from inference.types import Costs
from tests.support.tiny_gguf import write_tiny

CPU = ((1, 27.0), (2, 48.0), (4, 66.0), (8, 110.0), (16, 174.0), (32, 322.0))


def test_the_tasks_are_the_same_every_time_and_what_they_say() -> None:
    made = tasks(64, 5)
    assert made == tasks(64, 5) and list(made) == [NEW, REPEATED, CHANGED]
    assert [len(places) for places in made.values()] == [5, 8, 5]
    for place in made[NEW]:
        assert place.before.rstrip().endswith(":") and place.after and not place.earlier
    for place in made[REPEATED]:
        assert place.before.count("metrics.count") == place.before.count("def ") - 1 >= 2 and "return self._" in place.after
        assert (
            place.before.endswith("    try:\n") and place.like.startswith("        order =") and "return order." in place.like
        )
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


def test_every_figure_is_there_and_counts_what_it_says(rig: Rig, tmp_path: Path) -> None:
    places = tasks(12, 1)[REPEATED][:2]
    plain, forced = (rig.run(places, kind) for kind in (OFF, MODEL))
    assert plain.n_steps >= plain.n_tokens - len(places) > 4 and plain.cost == plain.n_steps * 27.0
    n_right, n_drafted = forced.drafted[MODEL]
    assert forced.n_steps <= plain.n_steps - n_right < plain.n_steps, "the draft is the target itself"
    assert sum(right for _, right in forced.positions) == n_right
    assert 0 < forced.positions[0][0] <= forced.n_steps + 1 and len(forced.positions) <= n_drafted
    assert forced.acceptance[MODEL] > 0.8 and not plain.drafted and not plain.positions
    log = CaseLog(tmp_path / "out", {})
    made = ratios(Passes(rig, log, REPEATED, places), rig.sources, 1, Progress("pass"), REPEATED)
    assert set(made) >= {"steps_ratio", "cost_ratio_controller", "clock_ratio_controller", "acceptance"}
    assert set(made["steps_ratio"]) == set(made["acceptance"]) == {PREVIOUS, LOOKUP, MODEL}
    assert made["steps_ratio"][MODEL] == pytest.approx(plain.n_steps / forced.n_steps, rel=0.01)
    assert made["clock_ratio_controller"] > 0 and made["cost_ratio_controller"] <= 1.02
    said = table({"model": "m-0.5b", "draft": "d", "tasks": {REPEATED: made}})
    assert REPEATED in said and "<= 0.667" in said and "steps, lookup forced" in said
    assert table({"model": "m", "draft": "d", "tasks": {REPEATED: made}}).count("<= 0.800") == 1
    assert table({"model": "m", "draft": "d", "tasks": {CHANGED: made}}).count("<= 1.020") == 1


def test_what_is_timed_goes_on_with_what_a_session_has_learnt_and_earned(rig: Rig) -> None:
    places, before = tasks(8, 1)[REPEATED][:1], rig.table.rows
    alone = [rig.run(places, ALL) for _ in range(2)]
    assert alone[0].drafted == alone[1].drafted, "each begins anew"
    session = Session()
    rig.run(places, ALL, session)
    assert rig.table.rows == before and session.tables["target"].rows != before and set(session.tables) == {"target", "draft"}
    controller = session.controller
    assert controller is not None and controller.allows(1e-6), "steps have paid in"
    controller.learn(Draft(LOOKUP, (1, 2, 3), (0, 0, 0)), 2, 1, 1)
    known = {each.source: each.n_drafted for each in controller.figures}
    made = rig.run(places, ALL, session)
    assert session.controller is controller and known[LOOKUP] >= 3
    for each in controller.figures:
        assert each.n_drafted == known.get(each.source, 0) + made.drafted[each.source][1]


def test_a_session_begins_with_all_places_of_its_task_once(rig: Rig, tmp_path: Path) -> None:
    places, asked = tasks(8, 3)[NEW], []

    def run(places: Sequence[Place], kind: str, session: Session | None = None) -> Pass:
        asked.append((len(places), kind, session))
        return Pass([], [], [], [], [], {}, [])

    rig.run = run  # type: ignore[method-assign]
    passes = Passes(rig, CaseLog(tmp_path / "out", {}), NEW, places, 1, 1)
    for i in range(2):
        for kind in (OFF, ALL):
            passes.timed(kind, i)
    assert [each[:2] for each in asked] == [(3, ALL), (1, OFF), (1, ALL), (1, OFF), (1, ALL)]
    assert asked[0][2] is not None and len({id(each[2]) for each in asked}) == 1


def test_an_interrupted_run_goes_on_with_what_is_known(rig: Rig, tmp_path: Path) -> None:
    places, out = tasks(8, 2)[CHANGED], tmp_path / "out"
    made = ratios(Passes(rig, CaseLog(out, {}), CHANGED, places, 1, 1), rig.sources, 2, Progress("pass"), CHANGED)
    lines = out.read_text().splitlines()
    assert len(lines) == 1 + 2 + len(rig.sources) + 2 * 2
    out.write_text("\n".join(lines[:-2]) + "\n")
    asked: list[tuple[int, str]] = []
    run, rig_ = rig.run, replace(rig)

    def asking(places: Sequence[Place], kind: str, session: Session | None = None) -> Pass:
        asked.append((len(places), kind))
        return run(places, kind, session)

    rig_.run = asking  # type: ignore[method-assign]
    again = ratios(Passes(rig_, CaseLog(out, {}), CHANGED, places, 1, 1), rig.sources, 2, Progress("pass"), CHANGED)
    assert asked == [(2, ALL), (1, OFF), (1, ALL)], "what is timed is the first place alone"
    by_the_clock = {"clock_ratio_controller": 0, "clock_ratios": [], "drafted_timed": {}}
    assert again | by_the_clock == made | by_the_clock


def test_rates_are_those_of_all_tasks_and_go_to_the_simulation_by_a_file(tmp_path: Path) -> None:
    made = {"a": {"positions": [[90, 45], [30, 15]]}, "b": {"positions": [[10, 10], [5, 5], [5, 5]]}, "c": {"positions": []}}
    rates = rates_of(made)
    assert rates == [0.55, round(20 / 35, 3)], "what few have reached says nothing"
    file = tmp_path / "rates.json"
    with pytest.raises(BenchError, match=r"python -m bench\.speculation .*--rates"):
        read_rates(file)
    keep_rates(file, {"model": "m", "draft": "d", "commit": "c", "positions": rates})
    assert read_rates(file) == tuple(rates)
    file.write_text('{"positions": [1.5]}')
    with pytest.raises(BenchError):
        read_rates(file)
    with pytest.raises(BenchError, match="No rates"):
        keep_rates(file, {"positions": []})


def test_the_script_for_a_card_says_that_rates_are_missing(tmp_path: Path) -> None:
    """Its part behind the measurement, with a python that only tells what it is called with."""
    script = (ROOT / "bench/gpu/run.sh").read_text()
    part = script[script.index('if [ -n "${larger:-}" ]') : script.index('say "done"')]
    (tmp_path / "bench/gpu").mkdir(parents=True)
    head = 'set -euo pipefail\nsay() { echo "$*" >&2; }\nleft() { echo 100; }\npython=echo\n'
    for is_there, larger in ((False, ""), (True, "big.gguf")):
        if is_there:
            (tmp_path / "bench/gpu/rates.json").write_text("{}")
        told = subprocess.run(
            ["bash", "-c", f"{head}larger={larger}\nmodel=small.gguf\ndrafting='--folder f'\n{part}"],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100,
        )  # fmt: skip
        assert ("SKIPPED: bench/gpu/rates.json is missing" in told.stderr) != is_there
        assert ("-m bench.gpu.drafting --folder f" in told.stdout) == is_there
        assert ("-m bench.speculation --model big.gguf --draft small.gguf" in told.stdout) == bool(larger)


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
