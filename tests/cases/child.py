"""The command `midfill lsp` with an engine as a case wants it: `python -m tests.cases.child MODE [ARGUMENT]`.

real: the model in this process; real cpu-only: as with a build of llama.cpp that has no GPU back end. slow-load SECONDS: the
model takes that long. scripted TEXT: a scripted model that says this. endless: one that never stops. noisy MODEL: a real model,
and prints from everywhere. gated MODEL: a real model whose steps wait, descriptors 1 and 2 redirected, for a byte from the pipe
that MIDFILL_TEST_GATE names. shared: the engine that all windows share, which does what `tests.support.engine_child` says.
Nothing native is loaded before the server asks for its engine.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from inference.config import EngineConfig
from lsp_server import app, handlers
from lsp_server.__main__ import main
from lsp_server.engines import ways as engines

OnProgress = Callable[[float], None]


def slow_load(seconds: str) -> app.OpenClient:
    def open_client(config: EngineConfig, _on_progress: OnProgress) -> Any:
        ctypes.CDLL(None).sleep(int(seconds))
        raise SystemExit("nobody waits for this")

    return open_client


def real(build: str) -> app.OpenClient:
    def open_client(config: EngineConfig, on_progress: OnProgress) -> Any:
        if build == "cpu-only":
            import llama_cpp

            llama_cpp.llama_supports_gpu_offload = lambda: False
        return app.open_local(config, on_progress)

    return open_client


def scripted(text: str) -> app.OpenClient:
    def open_client(config: EngineConfig, _on_progress: OnProgress) -> Any:
        from tests.cases.scripted import Model, ScriptedClient

        return ScriptedClient(Model.saying(text), config)

    return open_client


def endless(_: str) -> app.OpenClient:
    def open_client(config: EngineConfig, _on_progress: OnProgress) -> Any:
        from tests.cases.scripted import Model, ScriptedClient

        client = ScriptedClient(Model.saying("foo ", endless=True), config)
        usleep = ctypes.CDLL(None).usleep
        client.on_step = lambda _rows: usleep(50_000)
        return client

    return open_client


def noisy(_: str) -> app.OpenClient:
    """Prints from a handler, from the engine's thread, from the native log and from C, also while the model is loaded."""
    libc = ctypes.CDLL(None)
    answer = handlers.Room.inline_completion

    def say(text: str) -> None:
        print(f"noise from print in {text}", flush=True)  # noqa: T201
        libc.puts(f"noise from C in {text}".encode())
        libc.fflush(None)

    def handler(room: Any, params: Any) -> Any:
        say("a handler")
        return answer(room, params)

    handlers.Room.inline_completion = handler  # type: ignore[assignment, method-assign]

    def open_client(config: EngineConfig, on_progress: OnProgress) -> Any:
        early = "llama_cpp" in sys.modules
        here, errors = os.fstat(1), os.fstat(2)
        if early or (here.st_dev, here.st_ino) != (errors.st_dev, errors.st_ino):
            sys.stderr.write("native code was loaded before descriptor 1 was made safe\n")
        import llama_cpp

        from inference.llama import log, model

        quiet = log.NativeLog.install
        chatter = llama_cpp.llama_log_callback(lambda _level, text, _data: libc.printf(b"noise from llama.cpp: %s", text))

        def install(self: log.NativeLog) -> None:  # as with verbose=True: the native log is printed
            quiet(self)
            llama_cpp.llama_log_set(chatter, ctypes.c_void_p(0))

        log.NativeLog.install = install  # type: ignore[method-assign]
        decode = model.LlamaBackend.decode

        def loud(backend: model.LlamaBackend, rows: Any) -> Any:
            say("the engine")
            return decode(backend, rows)

        model.LlamaBackend.decode = loud  # type: ignore[assignment, method-assign]
        say("the load")
        return app.open_local(config, on_progress)

    return open_client


def gated(_: str) -> app.OpenClient:
    gate = os.environ["MIDFILL_TEST_GATE"]
    libc = ctypes.CDLL(None)

    def open_client(config: EngineConfig, on_progress: OnProgress) -> Any:
        from llama_cpp._utils import suppress_stdout_stderr

        from inference.llama import model

        client = app.open_local(config, on_progress)
        decode = model.LlamaBackend.decode
        is_held = [True]

        def held(backend: model.LlamaBackend, rows: Any) -> Any:
            with suppress_stdout_stderr(disable=False):  # what verbose=False does around native calls
                if is_held:
                    is_held.clear()
                    fd = libc.open(gate.encode(), os.O_RDONLY)
                    libc.read(fd, ctypes.create_string_buffer(1), 1)
                return decode(backend, rows)

        model.LlamaBackend.decode = held  # type: ignore[assignment, method-assign]
        return client

    return open_client


def with_spoilt_engine() -> None:
    if version := os.environ.get("MIDFILL_TEST_VERSION"):
        app.version = lambda: version  # type: ignore[attr-defined]
    command_line = engines.command_line

    def spoilt(*arguments: Any, **options: Any) -> list[str]:
        words = command_line(*arguments, **options)
        return [words[0], "-m", "tests.support.engine_child", *words[words.index("engine") :]]

    if any(name in os.environ for name in ("MIDFILL_TEST_VERSION", "MIDFILL_TEST_STEP_S", "MIDFILL_TEST_CRASH")):
        engines.command_line = spoilt  # type: ignore[attr-defined]


_MODES: dict[str, Callable[[str], app.OpenClient]] = {
    "slow-load": slow_load,
    "real": real,
    "scripted": scripted,
    "endless": endless,
    "noisy": noisy,
    "gated": gated,
}

if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "shared":
        with_spoilt_engine()
        sys.exit(main(["lsp"]))
    app.build = functools.partial(app.build, None, _MODES[mode](*(rest or [""])))
    sys.exit(main(["lsp"]))
