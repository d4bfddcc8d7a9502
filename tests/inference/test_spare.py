"""A process that is begun before it is known which engine it will be."""

from __future__ import annotations

import io
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
from lsp_server import spare
from lsp_server.engine_command import command_line
from tests.support.client import HANG_S
from tests.support.ended import all_ended, engines_of
from tests.support.served import events, run, until
from tests.support.tiny_gguf import write_tiny

CONFIG = EngineConfig(n_ctx=256, n_threads=1, n_gpu_layers=0, prefill_ms_per_token=0.1, step_ms=0.1, linger_s=0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "run"
    monkeypatch.setenv(RUNTIME_VARIABLE, str(directory))
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


def make(tmp_path: Path, home: Path, mine: Spare) -> Launcher:
    model = identify(write_tiny(tmp_path / "qwen-tiny.gguf"))
    words = command_line(model.path, "tiny", model.digest, CONFIG, tmp_path / "cache")
    return Launcher(place_of(model.digest, home), lambda _: words, "0.0.1", mine)


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
            "import time; from lsp_server import spare; mine = spare.if_needed(); "
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
