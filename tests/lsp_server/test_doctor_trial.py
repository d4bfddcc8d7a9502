"""What the numbers and the end of the test completion mean."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.child import Ended
from inference.config import EngineConfig
from inference.hardware import Look
from inference.memory_free import Free
from inference.models.choice import Located
from lsp_server.config import Config
from lsp_server.doctor import model
from lsp_server.doctor.findings import Finding, Level, as_json, as_line, exit_status, fault, note, ok, size, summary, warning
from lsp_server.doctor.native import Answer, read
from lsp_server.doctor.trial import completion
from tests.support.tiny_gguf import write_tiny

GB = 10**9


def key(text_ms: float | None, finish: str = "line", total_ms: float = 400.0) -> dict[str, Any]:
    return {"n_evaluated_tokens": 2, "text_ms": text_ms, "total_ms": total_ms, "finish": finish}


def trial(*keys: dict[str, Any], deadline_ms: int = 400, cold_ms: float = 900.0) -> list[Finding]:
    cold = {"n_prompt_tokens": 180, "n_evaluated_tokens": 181, "n_generated_tokens": 5, "text_ms": 800.0, "reason": ""}
    costs = {"prefill_ms_per_token": 4.0, "step_ms": 30.0}
    result = {"model": "m", "load_ms": 1500.0, **costs, "cold": {**cold, "total_ms": cold_ms}}
    config = Config()
    config = replace(config, server=replace(config.server, reply_deadline_ms=deadline_ms))
    return list(completion(Answer({**result, "warm": list(keys)}), config, Look()))


def test_in_time() -> None:
    first, second = trial(key(20), key(30), key(40))
    assert first.level is Level.OK and "180 prompt tokens" in first.text and "5 tokens in 900 ms" in first.text
    assert second.level is Level.OK and "2 prompt and healing tokens" in second.text
    assert "30 ms (median), 40 ms (slowest)" in second.text and "all kept reply_deadline_ms = 400" in second.text


def test_some_late() -> None:
    _, second = trial(key(20), key(30), key(500))
    assert second.level is Level.NOTE and "1 missed" in second.text
    _, second = trial(key(20), key(30), key(None, "deadline"))
    assert second.level is Level.NOTE and "1 missed" in second.text and "nothing at all" in second.text


def test_most_late() -> None:
    _, second = trial(key(20), key(500), key(None, "deadline"))
    assert second.level is Level.WARNING and "is missed" in second.text and "reply_deadline_ms" in second.do


def test_a_model_that_ends_at_once_is_in_time() -> None:
    _, second = trial(key(None, "stop", 25.0), key(None, "stop", 26.0))
    assert second.level is Level.OK


def test_no_deadline() -> None:
    _, second = trial(key(5000), deadline_ms=0)
    assert second.level is Level.OK and "there is no deadline" in second.text


def test_a_busy_machine_is_said() -> None:
    found = trial(key(20), cold_ms=9000.0)
    assert found[-1].level is Level.NOTE and found[-1].topic == "load" and "9000 ms instead of the 874 ms" in found[-1].text
    assert len(trial(key(20), cold_ms=2000.0)) == 2
    assert trial(key(500), cold_ms=9000.0)[1].level is Level.NOTE  # no advice is drawn from it
    assert found[1].level is Level.OK


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(None, "it was ended by SIGILL", signal="SIGILL"), "build the engine for this machine"),
        (Answer(None, "it was ended by SIGKILL", signal="SIGKILL"), "smaller model"),
        (Answer(None, "it took longer than 9 s and was ended"), "--timeout"),
        (Answer(None, "ImportError: x", is_broken=True), "--force-reinstall"),
        (Answer(None, "m can't fill in the middle"), "do what it says"),
    ],
)
def test_failures(answer: Answer, says: str) -> None:
    (found,) = completion(answer, Config(), Look())
    assert found.level is Level.FAULT and answer.error in found.text and says in found.do


# -- how a child's lines are read


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def test_a_whole_answer() -> None:
    answer = read(Ended(0, lines({"doing": "x"}, {"build": {"a": 1}}, {"result": {"n": 2}}), "noise"), 9)
    assert answer.result == {"n": 2} and answer.build == {"a": 1} and answer.error == ""


def test_a_sentence() -> None:
    answer = read(Ended(0, lines({"doing": "x"}, {"error": "There is\nno model."})), 9)
    assert answer.result is None and answer.error == "There is no model." and not answer.is_broken


def test_a_crash_keeps_what_was_known_and_where() -> None:
    output = lines({"build": {"a": 1}}, {"doing": "loading the model"}) + b'{"res'
    answer = read(Ended(-signal.SIGSEGV, output, "ggml.c: assertion failed\n\n"), 9)
    assert answer.result is None and answer.build == {"a": 1} and answer.signal == "SIGSEGV"
    assert answer.error.startswith("while loading the model, it was ended by SIGSEGV")
    assert "assertion failed" in answer.error


def test_a_crash_after_the_answer_is_a_crash() -> None:
    answer = read(Ended(-signal.SIGABRT, lines({"result": {}})), 9)
    assert answer.result is None and "while leaving" in answer.error


def test_too_late_and_not_started() -> None:
    assert "longer than 9 s" in read(Ended(-9, lines({"doing": "completing"}), is_late=True), 9).error
    assert "could not be started (no such file)" in read(Ended(None, error="no such file"), 9).error


# -- memory


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Located:
    return Located(write_tiny(tmp_path_factory.mktemp("memory") / "tiny.gguf", n_ctx=8192), "tiny")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tiny: Located) -> Callable[..., Finding]:
    """The finding of a model of a few MB, with so many bytes of memory."""

    def found(ram: int, *, cards: tuple[dict[str, Any], ...] = (), **config: Any) -> Finding:
        monkeypatch.setattr(model, "look_free", lambda look, devices: Free(ram, ram, None, devices))
        build = {"cpu_features": ["AVX2", "REPACK"], "devices": cards, "can_offload": bool(cards)}
        *contradiction, last = model.memory(tiny, build, replace(EngineConfig(), **config), Look())
        return contradiction[0] if contradiction else last

    return found


def test_memory(memory: Callable[..., Finding]) -> None:
    assert memory(GB).level is Level.OK and "cache" in memory(GB).text and "1.0 GB of memory are free" in memory(GB).text
    lowered = memory(97_000_000)
    assert lowered.level is Level.WARNING and "n_ctx is " in lowered.text and " instead of 4096" in lowered.text and lowered.do
    assert memory(1_000_000).level is Level.FAULT and "needs at least" in memory(1_000_000).text
    assert memory(0).level is Level.NOTE


def test_settings_that_exclude_each_other(memory: Callable[..., Finding]) -> None:
    found = memory(GB, kv_type="q8_0", flash_attention="off")
    assert found.level is Level.WARNING and "needs flash attention" in found.text and "flash_attention = auto" in found.do


def test_layers_on_a_gpu_need_its_memory(memory: Callable[..., Finding]) -> None:
    card = {"kind": "gpu", "name": "CUDA0", "total_bytes": 8 * GB, "free_bytes": 6 * GB}
    assert "3 layers on the device" in memory(GB, cards=(card,)).text
    assert "on the device" not in memory(GB, cards=(card,), n_gpu_layers=0).text
    full = {**card, "free_bytes": 0}
    assert "layers" not in memory(GB, cards=(full,)).text, "as many as fit are none"
    assert memory(GB, cards=(full,), n_gpu_layers=2).level is Level.WARNING


# -- lines


def test_a_finding_is_one_line() -> None:
    line = as_line(warning("cache", "a\nname\x1b[31m with\u2028breaks", "do\r\nthis"))
    assert line == "warning  cache         a name [31m with breaks -> do this"
    assert as_json(note("x", "a\nb")) == {"level": "note", "topic": "x", "text": "a b", "do": ""}


def test_the_exit_status_and_the_last_sentence() -> None:
    assert exit_status([ok("a", ""), note("a", ""), warning("a", "")]) == 0
    assert exit_status([ok("a", ""), fault("a", "")]) == 1
    assert summary([ok("a", "")]) == "midfill works"
    assert summary([warning("a", ""), warning("a", ""), note("a", "")]) == "midfill works: 2 warnings, 1 note"
    assert summary([fault("a", ""), warning("a", "")]) == "midfill does not work yet: 1 fault, 1 warning"


def test_sizes() -> None:
    assert [size(n) for n in (0, 999, 1500, 491_400_064, 99_940_000_000, 140 * GB)] == [
        "0 bytes", "999 bytes", "1.5 kB", "491 MB", "99.9 GB", "140 GB",
    ]  # fmt: skip


def test_a_models_sentence_is_cut_where_the_advice_begins(tmp_path: Path) -> None:
    config = Config(engine=replace(EngineConfig(), model=str(tmp_path / "no.gguf")))
    where, (found,) = model.locate(Answer(None), config, tmp_path)
    assert where is None and found.level is Level.FAULT
    assert "no.gguf" in found.text and found.do.startswith("check the path")


def test_a_model_that_was_chosen_says_why(tmp_path: Path) -> None:
    located = {"path": str(tmp_path / "a.gguf"), "name": "a", "note": "b is better for this machine"}
    where, (found,) = model.locate(Answer({}, located=located), Config(), tmp_path)
    assert where is not None and where.path == tmp_path / "a.gguf" and found == note("model", "b is better for this machine")


def test_where_the_engine_is_broken_the_choice_is_made_without_it(tmp_path: Path) -> None:
    config = Config(engine=replace(EngineConfig(), models_dir=str(tmp_path)))
    where, (found,) = model.locate(Answer(None, "broken", is_broken=True), config, tmp_path)
    assert where is None and found.level is Level.FAULT and "midfill models pull" in found.do
