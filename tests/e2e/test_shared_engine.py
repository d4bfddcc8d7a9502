"""One engine for every window: real language servers, real engine processes, a tiny real model. Waiting times only end what
hangs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ended import all_ended, engines_of, only_record
from tests.support.tiny_gguf import write_tiny
from tests.support.windows import Window, ask_engine, engine_of, midfill, status, until

N_KILLS = int(os.environ.get("MIDFILL_TEST_KILLS", "5"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", name="qwen-tiny")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Where the engines of the test are found; afterwards none is left, and no file but a log."""
    yield tmp_path / "run"
    all_ended(tmp_path / "run")


@pytest.mark.parametrize("leaves", ["in order", "killed"])
def test_two_windows_share_one_engine_and_either_lives_without_the_other(home: Path, model: Path, leaves: str) -> None:
    with Window(home, model) as one, Window(home, model) as other:
        one.start()
        engine = engine_of(home)
        other.start()
        for window in (one, other):
            window.complete()
        assert engine_of(home).pid == engine.pid
        assert status(home)[0]["leases"] == 2
        assert engine.ppid() not in (one.process.pid, other.process.pid)
        if leaves == "killed":
            one.process.kill()
            one.process.wait()
        else:
            one.leave()
        until(lambda: status(home)[0]["leases"] == 1, "the end of a lease")
        other.complete()
        assert engine.is_running()
        other.leave()


def test_the_engine_holds_nothing_of_the_editor(home: Path, model: Path) -> None:
    """Its own session and group, no pipe of the server's, the root as its directory, no variable that it has no use for."""
    os.environ["SECRET_OF_THE_EDITOR"] = "1"
    try:
        with Window(home, model) as window:
            window.start()
            engine = engine_of(home)
            assert os.getsid(engine.pid) not in (os.getsid(0), os.getsid(window.process.pid))
            assert os.getpgid(engine.pid) != os.getpgid(window.process.pid)
            assert engine.cwd() == "/"
            assert "SECRET_OF_THE_EDITOR" not in engine.environ()
            where = [os.readlink(f"/proc/{engine.pid}/fd/{fd}") for fd in (0, 1, 2)]
            (log,) = home.glob("*.log")
            assert where == ["/dev/null", str(log), str(log)]
            assert log.stat().st_mode & 0o777 == 0o600
            assert home.stat().st_mode & 0o777 == 0o700
            window.leave()
    finally:
        del os.environ["SECRET_OF_THE_EDITOR"]


def test_ten_windows_that_open_in_the_same_instant_start_one_engine(home: Path, model: Path) -> None:
    windows = [Window(home, model) for _ in range(10)]
    try:
        for window in windows:
            window.begin()
        for window in windows:
            window.until_ready()
        engine_of(home)
        (log,) = home.glob("*.log")
        assert log.read_text().count("listening on") == 1
        windows[3].complete()
        assert status(home)[0]["leases"] == 10
    finally:
        for window in windows:
            window.__exit__()


def test_kill_9_during_completions(home: Path, model: Path) -> None:
    """Each time: the request is answered, empty and with the reason; the next one is answered by a new engine."""
    slow = {"MIDFILL_TEST_STEP_S": "0.1"}  # no answer comes before the engine is dead
    with Window(home, model, slow) as window, Window(home, model, slow) as other:
        window.start()
        other.start()
        seen = set()
        for n in range(N_KILLS):
            engine = engine_of(home)
            assert engine.pid not in seen
            seen.add(engine.pid)
            asked = window.begin_to_ask()
            until(lambda: ask_engine(home, "/midfill/stats")["requests"], "the request")
            os.kill(engine.pid, signal.SIGKILL)
            assert window.answer(asked)["result"]["items"] == []
            told = window.explained()
            assert told["finish"] == "error" and "engine" in str(told["reason"]), told
            window.complete()
            assert [m for state, m in window.statuses() if state == "error"][n].endswith("needs it starts it again")
            if n % 2:
                other.complete()
        assert window.statuses()[-1][0] == "ready"
        other.complete()
        assert not window.shown()
        assert len(seen) == N_KILLS and status(home)[0]["leases"] == 2
        window.leave()
        other.leave()


def test_other_settings_are_told_once_and_restarting_brings_them(home: Path, model: Path) -> None:
    with Window(home, model) as one, Window(home, model, n_ctx=1024, max_tokens=3) as other:
        one.start()
        other.start()
        other.complete()
        (told,) = other.shown()
        assert "n_ctx:" in told and "max_tokens" not in told and "midfill.restartEngine" in told
        assert one.shown() == []
        before = engine_of(home).pid
        assert other.command("midfill.restartEngine") == {"ready": True, "model": "tiny"}
        assert engine_of(home).pid != before
        assert other.shown() == [told]
        assert other.command("midfill.stats")["engine"]["n_ctx"] == 1024
        other.complete()
        one.complete()  # it has found the new one by itself
        assert status(home)[0]["leases"] == 2


def test_another_model_is_another_engine(home: Path, model: Path, tmp_path: Path) -> None:
    second = write_tiny(tmp_path / "second.gguf", seed=3, name="qwen-second")
    with Window(home, model) as window, Window(home, model) as other:
        window.start()
        other.start()
        listed = window.command("midfill.selectModel")
        assert listed["current"] == "tiny" and {"id", "is_on_disk"} <= set(listed["models"][0])
        assert window.command("midfill.selectModel", str(second)) == {"ready": True, "model": "second"}
        window.complete()
        other.complete()
        assert {engine["model_name"]: engine["leases"] for engine in status(home)} == {"tiny": 1, "second": 1}
        refused = window.command("midfill.selectModel", str(tmp_path / "none.gguf"))
        assert refused["ready"] is False and "none.gguf" in refused["reason"] and refused["model"] == "second"
        window.complete()
        server = window.command("midfill.stats")["server"]
        assert server["pid"] == window.process.pid and server["model"] == "second" and server["requests"] == 2


def test_stop_ends_it_and_the_next_request_starts_it_again(home: Path, model: Path) -> None:
    with Window(home, model) as window:
        window.start()
        (line,) = midfill(home, "engine", "status").stdout.splitlines()
        assert line.startswith("tiny  process ") and "  ready  1 connected  " in line and line.endswith(".sock")
        done = midfill(home, "engine", "stop")
        assert done.returncode == 0 and "has ended" in done.stdout
        assert not engines_of(home)
        assert midfill(home, "engine", "status").stdout.startswith("no engine of yours runs")
        assert midfill(home, "engine", "stop").returncode == 1
        window.complete()
        engine_of(home)


def test_a_model_that_is_none_is_told_and_no_engine_stays(home: Path, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-1000])
    with Window(home, path) as window:
        window.begin()
        told = window.status("error")["params"]["message"]
        assert "cut.gguf" in told and "is cut short" in told
        assert window.answer(window.begin_to_ask())["result"]["items"] == []
        until(lambda: not engines_of(home))


def test_unload_and_reload(home: Path, model: Path) -> None:
    with Window(home, model, unload_s=0.2) as window:
        window.start()
        window.complete()
        pid = engine_of(home).pid
        for _ in range(2):
            until(lambda: status(home)[0]["news"]["state"] == "unloaded", "the end of idleness")
            assert status(home)[0]["engine"] is None
            window.complete()
            assert engine_of(home).pid == pid
        assert [state for state, _ in window.statuses()].count("error") == 0
        window.leave()


def test_a_stopped_engine_is_replaced_when_the_next_window_comes(home: Path, model: Path) -> None:
    with Window(home, model) as one:
        one.start()
        half_dead = engine_of(home)
        half_dead.suspend()
        with Window(home, model) as other:
            other.start()
            assert engine_of(home).pid != half_dead.pid
            other.complete()
            one.complete()
            assert status(home)[0]["leases"] == 2


def test_an_interrupted_engine_ends_in_order(home: Path, model: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with Window(home, model) as window:
            window.start()
            engine_of(home).send_signal(number)
            until(lambda: not engines_of(home))
            (log,) = home.glob("*.log")
            assert number.name in log.read_text()
            assert not list(home.glob("*.sock")) and not list(home.glob("*.json"))


def test_a_newer_midfill_replaces_the_engine_when_it_has_finished_what_runs(home: Path, model: Path) -> None:
    old_one, new_one = {"MIDFILL_TEST_VERSION": "0.0.9", "MIDFILL_TEST_STEP_S": "0.05"}, {"MIDFILL_TEST_VERSION": "0.0.10"}
    with Window(home, model, old_one) as old, Window(home, model, new_one) as new:
        old.start()
        before = engine_of(home).pid
        asked = old.begin_to_ask()
        until(lambda: ask_engine(home, "/midfill/stats")["requests"], "the request")
        new.start()
        assert old.answer(asked)["result"]["items"]  # it was let finish
        assert engine_of(home).pid != before
        assert only_record(home).version == "0.0.10"
        new.complete()
        old.complete()  # an older midfill uses the newer engine
        assert only_record(home).version == "0.0.10" and status(home)[0]["leases"] == 2
        with Window(home, model, old_one) as another:
            another.start()
            another.complete()
            assert only_record(home).version == "0.0.10" and another.shown() == []


def test_a_model_that_crashes_at_load_is_not_restarted_for_ever(home: Path, model: Path, tmp_path: Path) -> None:
    flag = tmp_path / "crash"
    flag.touch()
    with Window(home, model, {"MIDFILL_TEST_CRASH": str(flag)}) as window:
        window.begin()
        told = window.status("error")["params"]["message"]
        (log,) = home.glob("*.log")
        assert "ended while it loaded tiny" in told and str(log) in told

        def starts() -> int:
            return log.read_text().count("crashing")

        def ask() -> bool:
            assert window.answer(window.begin_to_ask())["result"]["items"] == []
            return starts() == 3

        until(ask)
        until(lambda: not engines_of(home))
        for _ in range(5):
            ask()
        assert starts() == 3
        assert window.shown() == [f"midfill: {told}"]
        assert "ended while it loaded" in str(window.explained()["reason"])
        flag.unlink()
        assert window.command("midfill.restartEngine") == {"ready": True, "model": "tiny"}
        window.complete()
