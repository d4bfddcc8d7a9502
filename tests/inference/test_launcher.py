"""Finding, starting and replacing an engine: real processes, a tiny real model, several launchers at once."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from inference import engine_record, launcher, unix_socket
from inference.clients.http_session import Gone
from inference.clients.lasting import LastingClient
from inference.config import EngineConfig
from inference.endpoint import Endpoint
from inference.engine_record import own_start
from inference.environment import reduced
from inference.launcher import Launcher, Silent, is_newer
from inference.models.identity import ModelFile, identify
from inference.models.lock import hold
from inference.runtime_dir import RUNTIME_VARIABLE, Place, make_private, place_of
from inference.spare import Spare
from inference.types import EngineError, FinishReason, GenerationRequest
from lsp_server.commands.engine import command_line
from tests.support.ended import all_ended, engines_of
from tests.support.served import events, run, until
from tests.support.tiny_gguf import write_tiny

CONFIG = EngineConfig(n_ctx=256, n_threads=1, n_gpu_layers=0, prefill_ms_per_token=0.1, step_ms=0.1, linger_s=0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return identify(write_tiny(tmp_path_factory.mktemp("model") / "qwen-tiny.gguf"))


@pytest.fixture
def place(tmp_path: Path, model: ModelFile, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Afterwards no engine is left there, and nothing but a log."""
    directory = tmp_path / "run"
    monkeypatch.setenv(RUNTIME_VARIABLE, str(directory))
    yield place_of(model.digest, directory)
    for process in engines_of(directory):
        process.send_signal(signal.SIGCONT)
        process.terminate()
    all_ended(directory)


Make = Callable[..., Launcher]


@pytest.fixture
def make(place: Place, model: ModelFile, tmp_path: Path) -> Make:
    def make_one(*, version: str = "0.0.1", loopback: bool = False, command: Sequence[str] = ()) -> Launcher:
        words = command or command_line(model.path, "tiny", model.digest, CONFIG, tmp_path / "cache", loopback=loopback)
        return Launcher(place, lambda _: words, version)

    return make_one


async def ask(where: LastingClient) -> FinishReason | None:
    tokens = where.vocab.encode(b"def area(width):\n    return")
    return (await events(where.submit(GenerationRequest(where.next_id(), tokens, n_max=4))))[-1].finish


def test_launchers_at_once_start_one_engine_that_serves_and_leaves(place: Place, make: Make, tmp_path: Path) -> None:
    async def main() -> None:
        found = await asyncio.gather(*(make().endpoint() for _ in range(5)))
        assert set(found) == {Endpoint(socket=place.socket)}
        (process,) = engines_of(place.directory)
        assert not place.lock.exists()
        clients = [await LastingClient.connect(make(), tmp_path / "cache") for _ in range(2)]
        assert await ask(clients[0]) in (FinishReason.LENGTH, FinishReason.STOP)
        await clients[0].aclose()
        assert process.is_running()
        await clients[1].aclose()
        await until(lambda: not engines_of(place.directory))

    run(main)


def test_where_there_are_no_unix_sockets_it_is_loopback_with_a_key(
    place: Place, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix_socket, "is_possible", lambda: False)

    async def main() -> None:
        client = await LastingClient.connect(make(loopback=True), tmp_path / "cache")
        record = engine_record.load(place)
        assert record is not None and record.url.startswith("http://127.0.0.1:") and not place.socket.exists()
        assert place.key.stat().st_mode & 0o777 == 0o600
        assert record.endpoint().key == place.key.read_text().strip() and len(record.endpoint().key) >= 32
        assert await ask(client) in (FinishReason.LENGTH, FinishReason.STOP)
        with pytest.raises(EngineError, match="key is missing or wrong"):
            await LastingClient.connect(_At(Endpoint(url=record.url, key="k" * 40)), tmp_path / "cache")
        first = record.endpoint().key
        assert await make(loopback=True).endpoint() == record.endpoint()
        again = await make(loopback=True).restart()
        assert again.key != first, "a key that was seen once opens the next engine"
        await client.aclose()

    run(main)


class _At:
    def __init__(self, where: Endpoint) -> None:
        self._where = where

    async def endpoint(self) -> Endpoint:
        return self._where

    async def sweep(self) -> None: ...


def test_a_port_whose_engine_has_died_is_not_asked(place: Place, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be anybody's by now, and would be told the key."""
    monkeypatch.setattr(unix_socket, "is_possible", lambda: False)

    async def main() -> None:
        await make(loopback=True).endpoint()
        record = engine_record.load(place)
        assert record is not None
        (process,) = engines_of(place.directory)
        process.kill()
        await until(lambda: not engines_of(place.directory))
        engine_record.save(place, replace(record, started=own_start() - 100, pid=os.getpid()))
        assert make()._where() is None
        await make().sweep()
        assert not place.record.exists() and not place.key.exists()

    run(main)


@pytest.mark.parametrize("mode", [0o777, 0o755 | 0o020])
def test_a_directory_that_others_can_write_to_starts_nothing(place: Place, make: Make, mode: int) -> None:
    place.directory.mkdir()
    place.directory.chmod(mode)

    async def main() -> None:
        with pytest.raises(EngineError, match="Others can write"):
            await make().endpoint()
        assert list(place.directory.iterdir()) == [] and not engines_of(place.directory)
        # nor is an engine asked that listens there
        with socket.socket(socket.AF_UNIX) as squatter:
            squatter.bind(str(place.socket))
            squatter.listen()
            with pytest.raises(EngineError, match="Others can write"):
                await make().endpoint()
        place.socket.unlink()

    run(main)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_can_neither_use_nor_end_an_engine(place: Place, make: Make) -> None:
    def as_somebody_else() -> str:
        """What happens to one who looks for an engine at that place."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            told = "it was let in"
            try:
                asyncio.run(make().restart())
            except (EngineError, OSError) as error:
                told = str(error)
            finally:
                os.write(writing, told.encode())
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return said

    async def main() -> None:
        await make().endpoint()
        (process,) = engines_of(place.directory)
        opened = []
        try:
            assert "ermission denied" in as_somebody_else()
            for directory in (place.directory, *place.directory.parents):
                opened.append((directory, directory.stat().st_mode))
                os.chmod(directory, directory.stat().st_mode | 0o055)
            os.chmod(place.socket, 0o666)
            assert "belongs to somebody else" in as_somebody_else()
            assert process.is_running() and engine_record.load(place) is not None
        finally:
            for directory, mode in opened:
                os.chmod(directory, mode)

    run(main)


def test_stale_files_are_in_nobodys_way(place: Place, make: Make) -> None:
    async def main() -> None:
        await make().endpoint()
        (process,) = engines_of(place.directory)
        process.kill()
        await until(lambda: not engines_of(place.directory))
        assert place.socket.exists() and place.record.exists()
        place.lock.write_text("1")  # of one that died while it held it
        await make().endpoint()
        (other,) = engines_of(place.directory)
        assert other.pid != process.pid

    run(main)


@pytest.mark.parametrize("has_record", [True, False])
def test_an_engine_that_does_not_answer_is_ended_and_replaced(
    place: Place, make: Make, monkeypatch: pytest.MonkeyPatch, has_record: bool
) -> None:
    monkeypatch.setattr(launcher, "HELLO_S", 0.5)

    async def main() -> None:
        await make().endpoint()
        (process,) = engines_of(place.directory)
        started = process.create_time()
        process.suspend()
        if not has_record:
            place.record.unlink()
        with pytest.raises(Silent):
            await make()._greeted()
        monkeypatch.setattr(launcher, "HELLO_S", 3.0)
        await make().endpoint()
        (other,) = engines_of(place.directory)
        assert other.pid != process.pid and engine_record.process_of(process.pid, started) is None

    run(main)


def test_who_is_older_uses_it_and_who_is_newer_replaces_it(place: Place, make: Make) -> None:
    async def main() -> None:
        await make(version="0.0.1").endpoint()  # the engine is of the version that is installed
        (process,) = engines_of(place.directory)
        await make(version="0+unknown").endpoint()
        assert [p.pid for p in engines_of(place.directory)] == [process.pid]
        await make(version="99.0").endpoint()
        (other,) = engines_of(place.directory)
        assert other.pid != process.pid

    run(main)


def test_why_it_could_not_be_started(place: Place, make: Make, tmp_path: Path, model: ModelFile) -> None:
    async def main() -> None:
        with pytest.raises(EngineError, match=r"can't be started .*no such file.*nowhere"):
            await make(command=[str(tmp_path / "nowhere")]).endpoint()
        with pytest.raises(Gone, match=r"ended before it could listen; .*\.log says why"):
            await make(command=[sys.executable, "-c", "raise SystemExit('a traceback')"]).endpoint()
        assert "a traceback" in place.log.read_text()
        other = write_tiny(tmp_path / "other.gguf", seed=1)
        words = command_line(other, "tiny", model.digest, CONFIG, tmp_path / "cache")
        with pytest.raises(EngineError, match="has changed since it was looked for"):
            await make(command=words).endpoint()
        assert not place.lock.exists()

    run(main)


def test_one_that_never_listens_is_ended(place: Place, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "START_S", 0.5)
    code = "import os, time; os.fork() and os._exit(0); open({!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    note = place.directory / "pid"

    async def main() -> None:
        with pytest.raises(Gone, match="did not begin to listen"):
            await make(command=[sys.executable, "-c", code.format(str(note))]).endpoint()

    run(main)
    if note.exists():  # a busy machine may not have come so far
        pid = int(note.read_text())
        run(lambda: until(lambda: engine_record.process_of(pid, _start_of(pid)) is None))
        note.unlink()


def _start_of(pid: int) -> float:
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def test_who_starts_one_is_waited_for(place: Place, make: Make) -> None:
    async def main() -> None:
        make_private(place.directory)
        with hold(place.lock):
            waits = asyncio.create_task(make().endpoint())
            await asyncio.sleep(0.3)
            assert not waits.done() and not engines_of(place.directory)
            place.lock.unlink()
        await waits
        assert len(engines_of(place.directory)) == 1

    run(main)


@pytest.mark.parametrize("stage", ["before there is a process", "before it listens"])
def test_a_server_that_goes_while_it_starts_one_leaves_none(
    place: Place, make: Make, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    spawn, has_begun = launcher._spawn, threading.Event()

    def slowly(command: Sequence[str], place: Place, spare: Spare | None) -> subprocess.Popen[bytes]:
        has_begun.set()
        time.sleep(0.2)
        return spawn(command, place, spare)

    async def main() -> None:
        if stage == "before there is a process":
            monkeypatch.setattr(launcher, "_spawn", slowly)
        starting = asyncio.create_task(make().endpoint())
        await until(has_begun.is_set if stage == "before there is a process" else place.log.exists)
        starting.cancel()
        await asyncio.wait({starting})
        assert starting.cancelled()
        await until(place.log.exists)
        await until(lambda: not engines_of(place.directory))

    run(main)


@pytest.mark.parametrize(
    ("one", "other", "newer"),
    [
        ("0.2", "0.1.9", True), ("0.10.0", "0.9.0", True), ("1.0", "1.0.0", False), ("1.0.0", "1.0", False),
        ("0.1", "0.1.dev3", False), ("0+unknown", "0.1", False), ("", "0.1", False), ("0.1", "garbage", True),
    ],
)  # fmt: skip
def test_versions(one: str, other: str, newer: bool) -> None:
    assert is_newer(one, other) is newer


def test_the_environment_is_reduced() -> None:
    kept = {"PATH": "p", "HOME": "h", "LC_ALL": "C", "XDG_CACHE_HOME": "c", "MIDFILL_LOG": "debug", "CUDA_VISIBLE_DEVICES": "0",
            "PYTHONPATH": "x", "LD_LIBRARY_PATH": "l", "Path": "windows"}  # fmt: skip
    dropped = {"VSCODE_PID": "1", "AWS_SECRET_ACCESS_KEY": "s", "SSH_AUTH_SOCK": "a", "NVIM": "n", "PATHS": "x"}
    assert reduced({**kept, **dropped}) == kept


def test_a_child_of_the_editor_is_not_found_below_it(place: Place, make: Make) -> None:
    """The engine's parent is not the process that asked for it, which may be ended with all its children."""
    code = (
        "import asyncio, psutil, sys; from pathlib import Path; "
        "from inference.launcher import Launcher; from inference.runtime_dir import Place; words = sys.argv[3:];"
        "asyncio.run(Launcher(Place(Path(sys.argv[1]), sys.argv[2]), lambda _: words, '1').endpoint());"
        "print(len(psutil.Process().children(recursive=True)))"
    )
    words = make().command(place)
    done = subprocess.run(
        [sys.executable, "-c", code, str(place.directory), place.stem, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"
