"""A process that is begun before it is known which engine it will be."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from inference import spare as spare_module
from inference.clients.lasting import LastingClient
from inference.config import EngineConfig
from inference.launcher import Launcher
from inference.models.identity import identify
from inference.runtime_dir import RUNTIME_VARIABLE, place_of
from inference.spare import Spare, await_word
from inference.types import EngineError, FinishReason, GenerationRequest
from lsp_server.commands.engine import command_line
from lsp_server.engines import spare
from lsp_server.engines.last import keep, last_engine
from tests.support.client import HANG_S
from tests.support.ended import all_ended, engines_of
from tests.support.served import events, run, until
from tests.support.tiny_gguf import write_tiny

CONFIG = EngineConfig(n_ctx=256, n_threads=1, n_gpu_layers=0, prefill_ms_per_token=0.1, step_ms=0.1, linger_s=0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "run"
    monkeypatch.setenv(RUNTIME_VARIABLE, str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "midfill").mkdir(parents=True)
    yield directory
    all_ended(directory)


def of_session(leader: int) -> list[int]:
    """Its processes that have not ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (OSError, psutil.Error):
            continue
    return found


def gone(leader: int) -> bool:
    end = time.monotonic() + HANG_S
    while of_session(leader):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def make(tmp_path: Path, home: Path, mine: Spare, name: str = "tiny") -> Launcher:
    """name: of the model."""
    path = tmp_path / "qwen-tiny.gguf"
    model = identify(path if path.exists() else write_tiny(path))
    words = command_line(model.path, name, model.digest, CONFIG, tmp_path / "home" / "midfill")
    return Launcher(place_of(model.digest, home), lambda _: words, "0.0.1", mine)


def guesser(tmp_path: Path) -> int:
    """The process that has begun to be the engine of before."""
    lock = tmp_path / "home" / "midfill" / "last-engine.lock"
    end = time.monotonic() + HANG_S
    while not (told := lock.read_text() if lock.exists() else ""):
        assert time.monotonic() < end, "it does not begin"
        time.sleep(0.02)
    return int(told)


def pid_of(mine: Spare) -> int:
    assert mine._child is not None
    return mine._child.pid


def test_it_becomes_the_engine_and_leaves_like_one(tmp_path: Path, home: Path) -> None:
    mine = spare.if_needed()
    assert mine is not None
    session = pid_of(mine)
    launcher = make(tmp_path, home, mine)

    async def main() -> None:
        client = await LastingClient.connect(launcher, tmp_path / "cache")
        (engine,) = engines_of(home)
        assert os.getsid(engine.pid) == session != os.getsid(0) and engine.cwd() == "/"
        assert client.hello.pid == engine.pid
        tokens = client.vocab.encode(b"def area(width):\n    return")
        told = await events(client.submit(GenerationRequest(client.next_id(), tokens, n_max=4)))
        assert told[-1].finish in (FinishReason.LENGTH, FinishReason.STOP)
        assert "listening on" in launcher.place.log.read_text()
        assert spare.if_needed() is None, "an engine is there"
        await client.aclose()
        await until(lambda: not engines_of(home))

    run(main)


async def served_by(launcher: Launcher, home: Path, tmp_path: Path) -> tuple[int, str]:
    """An engine's process, and the name of its model; it has answered a request, and has ended."""
    client = await LastingClient.connect(launcher, tmp_path / "cache")
    tokens = client.vocab.encode(b"def area(width):\n    return")
    told = await events(client.submit(GenerationRequest(client.next_id(), tokens, n_max=4)))
    assert told[-1].finish in (FinishReason.LENGTH, FinishReason.STOP)
    pid, name = client.hello.pid, client.hello.model_name
    await client.aclose()
    await until(lambda: pid not in [process.pid for process in engines_of(home)])
    return pid, name


@pytest.mark.parametrize("guess", ["right", "another name", "no model", "nonsense", "no settings"])
def test_it_begins_to_be_the_engine_of_before(tmp_path: Path, home: Path, guess: str) -> None:
    kept = tmp_path / "home" / "midfill" / "last-engine.json"

    async def main() -> None:
        first = spare.if_needed()
        assert first is not None
        name = "other" if guess == "another name" else "tiny"
        await served_by(make(tmp_path, home, first, name), home, tmp_path)
        assert last_engine(kept.parent) and kept.stat().st_mode & 0o777 == 0o600
        if guess == "no model":
            model = tmp_path / "broken.gguf"
            model.write_bytes(b"GGUF" + bytes(40))
            kept.write_text(
                json.dumps([f"--model={model}" if w.startswith("--model=") else w for w in last_engine(kept.parent) or ()])
            )
        elif guess == "nonsense":
            kept.write_text('["engine", "--background", "--what"]')
        elif guess == "no settings":
            kept.write_text(json.dumps([*(last_engine(kept.parent) or ()), "--settings={"]))
        second = spare.if_needed()
        assert second is not None
        session = pid_of(second)
        begun = guesser(tmp_path) if guess not in ("nonsense", "no settings") else 0
        third = spare.if_needed()  # does not begin as well
        assert third is not None
        pid, told = await served_by(make(tmp_path, home, second), home, tmp_path)
        assert told == "tiny", "it is what it was told to be"
        if guess == "right":
            assert pid == begun, "it had begun before it was told"
        assert gone(session)
        await served_by(make(tmp_path, home, third), home, tmp_path)

    run(main)


@pytest.mark.parametrize("text", ["", "{}", "[]", '["engine"]', '["models", "rm"]', '["engine", "--background", 3]', "\xff"])
def test_a_file_of_no_use_is_no_guess(tmp_path: Path, text: str) -> None:
    assert last_engine(tmp_path) is None
    (tmp_path / "last-engine.json").write_text(text)
    assert last_engine(tmp_path) is None
    keep(tmp_path / "nowhere", ["engine", "--background"])
    keep(tmp_path, ["engine", "--background", "x"])
    assert last_engine(tmp_path) == ["engine", "--background", "x"]
    assert [path.name for path in tmp_path.iterdir()] == ["last-engine.json"]


@pytest.mark.parametrize("how", ["it is closed", "who has started it is killed"])
def test_one_that_is_not_needed_ends(home: Path, how: str) -> None:
    if how == "it is closed":
        mine = spare.if_needed()
        assert mine is not None
        session = pid_of(mine)
        mine.close()
        mine.close()
    else:
        code = (
            "import time; from lsp_server.engines import spare; mine = spare.if_needed(); "
            "print(mine._child.pid, flush=True); time.sleep(999)"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
            assert parent.stdout is not None
            session = int(parent.stdout.readline())
            assert of_session(session)
            parent.kill()
    assert gone(session)


@pytest.mark.parametrize("what", ["has died", "is another program"])
def test_without_it_an_engine_is_started_as_ever(tmp_path: Path, home: Path, what: str) -> None:
    begin, wait = spare.begin(), ["engine", "--background", "--spare"]
    mine = Spare(begin, ["--help"]) if what == "has died" else Spare([*begin[:-1], "/"], wait)
    session = pid_of(mine)
    if what == "has died":
        assert gone(session)

    async def main() -> None:
        await make(tmp_path, home, mine).endpoint()
        (engine,) = [process for process in engines_of(home) if "--spare" not in process.cmdline()]
        assert os.getsid(engine.pid) != session
        mine.close()
        engine.terminate()

    run(main)
    assert gone(session)


def test_there_is_none_where_it_can_not_be_started(tmp_path: Path) -> None:
    mine = Spare([str(tmp_path / "nothing")], [])
    assert mine.take([str(tmp_path / "nothing"), "engine"], tmp_path / "log") is None
    mine.close()


@pytest.mark.parametrize(
    ("said", "result"),
    [
        (b'{"arguments": ["engine", "--background"], "log": "/l"}\n', (["engine", "--background"], Path("/l"))),
        (b"", None),
        (b'{"arguments": ["engine"', None),
        (b'{"arguments": 3, "log": "/l"}\n', EngineError),
        (b"[]\n", EngineError),
        (b"\xff\n", EngineError),
    ],
)
def test_the_word_that_it_waits_for(monkeypatch: pytest.MonkeyPatch, said: bytes, result: object) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(said)))
    if result is EngineError:
        with pytest.raises(EngineError, match="nonsense"):
            await_word()
    else:
        assert await_word() == result


def test_one_that_is_forgotten_ends_by_itself(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from inference import spare; spare.WAIT_S = 0.05; spare.await_word()"
    mine = Spare([sys.executable, "-c", code], [])
    assert gone(pid_of(mine))
    mine.close()
    assert spare_module.WAIT_S >= 10
