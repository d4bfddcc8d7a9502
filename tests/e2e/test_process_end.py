"""process-exit, stdio-pollution, startup-blocking: neighbours, with the real command as a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cases.drivers.process import OPENED, URI, generate
from tests.cases.drivers.stdio import SETTINGS
from tests.cases.scene import items_of
from tests.cases.server_process import ServerProcess
from tests.support.client import frame
from tests.support.tiny_gguf import write_tiny


def test_the_input_ends_while_native_code_loads_the_model() -> None:
    with ServerProcess("slow-load", "600") as server:
        server.initialize(0)
        server.answer(0)
        server.notify("initialized", {})
        server.status("loading")
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.ended() == 1
        assert "Traceback" not in server.errors


def test_shutdown_and_exit_while_the_model_generates() -> None:
    with ServerProcess("endless") as server:
        generate(server, None)
        server.ask(2, "shutdown")
        assert server.answer(2)["result"] is None
        assert "error" in server.answer(1)
        server.notify("exit")
        assert server.ended() == 0
        server.check_frames()


def test_a_client_that_stops_reading_and_then_hangs_up() -> None:
    """Its pipe is full: what is written blocks, and must not keep the process."""
    with ServerProcess("endless") as server:
        generate(server, None)
        server.hold_reading()
        for i in range(400):
            server.ask(1000 + i, "workspace/executeCommand", {"command": "midfill.explain"})
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(30) == 1


def test_the_real_command_on_a_tiny_model_with_odd_input(tmp_path: Path) -> None:
    """Noise in front of frames, headers that clients vary, and a message that is none: all answered, and nothing stray."""
    path = write_tiny(tmp_path / "tiny.gguf")
    with ServerProcess("noisy", str(path)) as server:
        server.initialize(0, options={**SETTINGS, "model": str(path)})
        server.answer(0)
        server.notify("initialized", {})
        server.status("ready")
        assert server.process.stdin is not None
        body = frame({"jsonrpc": "2.0", **OPENED}).partition(b"\r\n\r\n")[2]
        head = f"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length: {len(body)}\r\n\r\n"
        server.process.stdin.write(b"hello\n\r\n" + frame(b"{not json") + head.encode() + body)
        server.process.stdin.flush()
        server.ask_inline(1, URI, 0, 4)
        items_of(server.answer(1))
        server.ask(2, "shutdown")
        server.notify("exit")
        assert server.ended() == 0
        assert {m["id"] for m in server.check_frames() if "method" not in m} == {0, 1, 2}


def test_a_model_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "none.gguf"
    path.write_bytes(b"no model at all")
    with ServerProcess("noisy", str(path)) as server:
        server.initialize(0, options={**SETTINGS, "model": str(path)})
        server.notify("initialized", {})
        told = server.status("error")["params"]["message"]
        assert "none.gguf" in told and "Traceback" not in told
        server.send(OPENED)
        server.ask_inline(1, URI, 0, 4)
        assert items_of(server.answer(1)) == []
        server.ask(2, "shutdown")
        server.notify("exit")
        assert server.ended() == 0
        server.check_frames()
        assert "Traceback" not in server.errors


def test_the_child_is_the_command_itself() -> None:
    """Nothing native is there before the server asks for it."""
    code = "import sys, tests.cases.child; print('llama_cpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
