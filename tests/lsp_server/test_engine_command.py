"""`midfill engine`: by hand, for other machines, several of them, and what is told when something is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from inference import engine_record
from inference.config import EngineConfig
from inference.engine_record import EngineRecord, own_start
from inference.engine_settings import NAMES, differing, given, settings_of
from inference.models import choice
from inference.runtime_dir import RUNTIME_VARIABLE, Place, make_private
from lsp_server.commands.engine import command_line
from lsp_server.config import Config, Sources, load
from lsp_server.engines import ways as engines
from tests.support.client import HANG_S
from tests.support.ended import all_ended
from tests.support.tiny_gguf import write_tiny
from tests.support.windows import ROOT, SETTINGS, Window, engine_of, midfill, status, until

TOML = 'n_ctx = 512\nn_threads = 1\nn_gpu_layers = 0\nprefill_ms_per_token = 0.1\nstep_ms = 0.1\n'


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    all_ended(tmp_path / "run")


class ByHand:
    """`midfill engine WORDS…` in a terminal. errors: what it wrote there."""

    def __init__(self, home: Path, *words: str) -> None:
        config = home.parent / "midfill.toml"
        config.write_text(TOML)
        places = {"MIDFILL_RUNTIME_DIR": str(home), "MIDFILL_CONFIG": str(config), "XDG_CACHE_HOME": str(home.parent)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "lsp_server", "engine", *words], cwd=ROOT, env={**os.environ, **places},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.errors = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._limit = threading.Timer(HANG_S, self.process.kill)
        self._limit.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line.decode()

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *_: object) -> None:
        self._limit.cancel()
        with contextlib.suppress(OSError):
            self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.communicate()

    def address(self) -> str:
        pattern = re.compile(r"^midfill: \S+ is served on (\S+)$", re.M)
        until(lambda: pattern.search(self.errors) or self.process.poll() is not None)
        found = pattern.search(self.errors)
        assert found, self.errors
        return found[1]

    def ended(self) -> int:
        code = self.process.wait(HANG_S)
        self._reader.join(HANG_S)
        assert self.process.stdout is not None and self.process.stdout.read() == b""
        assert "Traceback" not in self.errors
        return code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_by_hand_it_stays_without_anybody_and_windows_use_it(home: Path, tmp_path: Path, number: signal.Signals) -> None:
    model = write_tiny(tmp_path / "tiny.gguf", name="qwen-tiny")
    with ByHand(home, "--model", str(model)) as engine:
        assert engine.address().endswith(".sock")
        with Window(home, model, linger_s=0) as window:
            window.start()
            window.complete()
            assert engine_of(home).pid == engine.process.pid
            window.leave()
        until(lambda: status(home)[0]["leases"] == 0)
        assert engine.process.poll() is None
        second = ByHand(home, "--model", str(model))
        with second:
            assert second.ended() == 1
            assert "listens" in second.errors and "already" in second.errors
        engine.process.send_signal(number)
        assert engine.ended() == 0 and number.name in engine.errors


def test_for_another_machine_it_wants_a_key(home: Path, tmp_path: Path) -> None:
    model, key = write_tiny(tmp_path / "tiny.gguf", name="qwen-tiny"), tmp_path / "key"
    with ByHand(home, "--model", str(model), "--host", "127.0.0.1:0", "--api-key-file", str(key)) as engine:
        url = engine.address()
        assert url.startswith("http://127.0.0.1:") and key.stat().st_mode & 0o777 == 0o600
        assert status(home)[0]["address"] == url and status(home)[0]["answers"]
        remote, nowhere = {"engine_url": url}, Path("not looked for")
        with Window(home, nowhere, **remote, api_key_file=str(key)) as window:
            window.start()
            assert window.statuses()[-1] == ("ready", f"tiny is ready; on {url}")
            window.complete()
            assert window.command("midfill.stats")["engine"]["pid"] == engine.process.pid
        source = tmp_path / "a.py"
        source.write_text("x = wid")
        settings = tmp_path / "settings.toml"
        settings.write_text(f'engine_url = "{url}"\napi_key_file = "{key}"\n')
        done = midfill(home, "complete", f"{source}:1:8", "--json", MIDFILL_CONFIG=str(settings))
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["model"] == "tiny", "the command asks the same engine"
        wrong = tmp_path / "wrong"
        wrong.write_text("k" * 40)
        wrong.chmod(0o600)
        told = json.loads(midfill(home, "doctor", "--json", MIDFILL_CONFIG=str(settings)).stdout)
        (said,) = (each for each in told["findings"] if each["topic"] == "engine_url")
        assert told["works"] and said["level"] == "ok" and f"at {url}, tiny, ready" in said["text"]
        assert told["completion"] is None and "memory" not in {each["topic"] for each in told["findings"]}
        no_address = {"engine_url": "http://me:secret@127.0.0.1"}
        for change, why in (
            ({"api_key_file": str(wrong)}, "key is missing or wrong"), ({}, "api_key_file"), (no_address, "not the address")
        ):  # fmt: skip
            with Window(home, nowhere, **{**remote, **change}) as window:
                window.begin()
                assert why in window.status("error")["params"]["message"]
            assert why in _doctor_of_remote(home, settings, {**remote, **change}), "and doctor says so too"
        assert midfill(home, "engine", "stop").returncode == 0
        assert engine.ended() == 0
        assert "No engine is there" in _doctor_of_remote(home, settings, {**remote, "api_key_file": str(key)})


def _doctor_of_remote(home: Path, file: Path, settings: Mapping[str, str]) -> str:
    """What is wrong with the engine that these settings name."""
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    done = midfill(home, "doctor", "--json", MIDFILL_CONFIG=str(file))
    found = [each for each in json.loads(done.stdout)["findings"] if each["level"] == "fault"]
    assert done.returncode == 1 and [each["topic"] for each in found] == ["engine_url"] and found[0]["do"]
    assert "secret" not in done.stdout
    return str(found[0]["text"])


def test_a_remote_engine_that_is_not_there_is_found_when_it_is(home: Path, tmp_path: Path) -> None:
    model, key = write_tiny(tmp_path / "tiny.gguf", name="qwen-tiny"), tmp_path / "key"
    key.write_text("k" * 40)
    key.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Window(home, model, engine_url=f"http://127.0.0.1:{port}", api_key_file=str(key)) as window:
        window.begin()
        assert f"http://127.0.0.1:{port}: No engine is there" in window.status("error")["params"]["message"]
        with ByHand(home, "--model", str(model), "--host", f"127.0.0.1:{port}", "--api-key-file", str(key)) as engine:
            engine.address()
            until(lambda: window.answer(window.begin_to_ask()) and window.statuses()[-1][0] == "ready", "the engine")
            window.complete()


def test_several_engines_are_ended_by_name_by_number_or_all(home: Path, tmp_path: Path) -> None:
    models = [write_tiny(tmp_path / f"tiny{i}.gguf", seed=i) for i in range(3)]
    with contextlib.ExitStack() as stack:
        engines = [stack.enter_context(ByHand(home, "--model", str(model))) for model in models]
        for engine in engines:
            engine.address()
        lines = midfill(home, "engine", "status").stdout.splitlines()
        assert len(lines) == 3 and {line.split()[0] for line in lines} == {"tiny0", "tiny1", "tiny2"}
        done = midfill(home, "engine", "stop")
        assert done.returncode == 1 and "3 engines run" in done.stderr
        assert midfill(home, "engine", "stop", "tiny0").stdout.startswith("tiny0 ")
        assert midfill(home, "engine", "stop", str(engines[1].process.pid)).stdout.startswith("tiny1 ")
        assert "nobody" in midfill(home, "engine", "stop", "nobody").stderr
        engines[2].process.send_signal(signal.SIGSTOP)
        assert "does not answer" in midfill(home, "engine", "status").stdout
        done = midfill(home, "engine", "stop", "--all")
        assert done.returncode == 0 and done.stdout.startswith("tiny2 ")
        assert [engine.process.wait(HANG_S) for engine in engines] == [0, 0, -signal.SIGKILL]
        assert midfill(home, "engine", "stop", "--all").returncode == 0
        assert json.loads(midfill(home, "engine", "status", "--json").stdout) == {"engines": []}


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--host", "0.0.0.0:0"), 1, "belong together"),
        (("--api-key-file", "key"), 1, "belong together"),
        (("--host", "nonsense", "--api-key-file", "key"), 2, "HOST:PORT"),
        (("--model", ""), 1, "--model is empty"),
        (("--model", "/nowhere/x.gguf"), 1, "/nowhere/x.gguf"),
        (("status", "--all"), 2, "unrecognized"),
    ],
)
def test_what_is_wrong_is_one_sentence(home: Path, words: tuple[str, ...], code: int, why: str) -> None:
    done = midfill(home, "engine", *words)
    assert done.returncode == code and why in done.stderr and "Traceback" not in done.stderr
    assert not home.exists()


def test_a_directory_of_somebody_else_is_refused(home: Path) -> None:
    home.mkdir(mode=0o700)
    home.chmod(0o777)
    for words in (("status",), ("stop", "--all")):
        done = midfill(home, "engine", *words)
        assert done.returncode == 1 and "Others can write" in done.stderr


def test_settings_that_were_given_come_back_as_they_were() -> None:
    config = Config().engine
    assert given(config) == {}
    options = {key: value for key, value in SETTINGS.items() if key in NAMES}
    mine, problems = load(Sources(options={**options, "n_gpu_layers": -1, "unload_s": 900}))
    assert not problems
    passed = json.loads(json.dumps(given(mine.engine)))
    again, problems = load(Sources(options=passed))
    assert not problems and settings_of(again.engine) == settings_of(mine.engine)
    assert again.engine.asks_for_gpu and not load(Sources(options=given(config)))[0].engine.asks_for_gpu
    words = command_line(Path("/m.gguf"), "-m", "d", mine.engine, Path("/c"))
    assert f"--settings={json.dumps(passed)}" in words and "--name=-m" in words


def test_which_settings_differ() -> None:
    mine = settings_of(EngineConfig())
    assert differing(mine, {**mine, "n_ctx": 1, "unknown": 2}) == ("n_ctx",)
    assert differing(mine, {}) == ()


def test_a_model_that_is_left_open_is_the_one_that_runs(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was chosen when its memory was free."""
    monkeypatch.setenv(RUNTIME_VARIABLE, str(home))
    model = write_tiny(tmp_path / "tiny.gguf")
    make_private(home)
    place = Place(home, "x-1")
    record = EngineRecord(
        os.getpid(), own_start(), "1", "tiny", str(model), "d", asked="auto", models_dir="", socket=str(place.socket)
    )
    monkeypatch.setattr(engines, "locate", lambda *_: choice.Located(tmp_path / "other", "other"))
    monkeypatch.setattr(engines, "identify", lambda path: path)

    def aimed(**settings: str) -> str:
        return engines._aim(Config(engine=replace(EngineConfig(), **settings)), tmp_path)[0].name  # type: ignore[arg-type]

    assert aimed() == "other"
    engine_record.save(place, record)
    assert aimed() == "tiny"
    assert aimed(model="named") == "other" and aimed(models_dir="/elsewhere") == "other"
    engine_record.save(place, replace(record, asked=str(model)))
    assert aimed() == "other"
    engine_record.save(place, replace(record, started=record.started - 100))
    assert aimed() == "other"
    place.record.unlink()
