"""Opening files: what is wrong is said in one sentence, and nothing is ever written to descriptors 1 and 2."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from inference.config import EngineConfig
from inference.llama.load import _why_not, open_model
from inference.llama.log import NativeLog
from inference.llama.model import LlamaBackend
from inference.llama.vocab import load_vocab
from inference.types import EngineError, NoRoom

CONFIG = EngineConfig(n_ctx=256, n_threads=1, n_gpu_layers=0)


def check_refused(path: Path, pattern: str) -> None:
    """Both ways to open a file refuse it with one sentence that names it."""
    for load in (lambda: load_vocab(path), lambda: LlamaBackend(CONFIG, path)):
        with pytest.raises(EngineError, match=pattern) as caught:
            load()
        message = str(caught.value)
        assert str(path) in message
        assert message.endswith(".")
        assert "\n" not in message


def test_missing_file(tmp_path: Path) -> None:
    check_refused(tmp_path / "none.gguf", "There is no model file .*midfill models pull")


def test_directory(tmp_path: Path) -> None:
    check_refused(tmp_path, "is a directory")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.gguf"
    path.write_bytes(b"GGUF")
    path.chmod(0)
    check_refused(path, "can't be read")


@pytest.mark.parametrize("content", [b"PK\x03\x04" * 50, b"\x00" * 5000, b"<html>not found</html>", b"\xff\xfe\xfd\xfc"])
def test_not_gguf(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    check_refused(path, "is not a GGUF file")


@pytest.mark.parametrize("content", [b"", b"GG"])
def test_nearly_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    check_refused(path, "truncated")


@pytest.mark.parametrize("n_bytes", [4, 8, 30, 200, 3000, 12_000])
def test_truncated_in_the_header(tmp_path: Path, tiny_models: dict[str, Path], n_bytes: int) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_models["qwen2"].read_bytes()[:n_bytes])
    check_refused(path, "truncated or damaged; fetch it again")


@pytest.mark.parametrize("n_missing", [1, 1000, 200_000])
def test_truncated_in_the_weights(tmp_path: Path, tiny_models: dict[str, Path], n_missing: int) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny_models["qwen2"].read_bytes()[:-n_missing])
    with pytest.raises(EngineError, match="truncated or damaged; fetch it again"):
        LlamaBackend(CONFIG, path)


def test_garbage_after_the_magic(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + bytes(range(256)) * 40)
    check_refused(path, "fetch it again")


def test_unknown_architecture(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "perceptron9000")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    check_refused(path, "architecture of .* is unknown")


def test_out_of_memory_has_its_own_sentence(tmp_path: Path) -> None:
    said = ("alloc_tensor_range: failed to allocate CUDA0 buffer of size 9663676416",)
    assert isinstance(_why_not(tmp_path, said), NoRoom) and "not enough memory" in str(_why_not(tmp_path, said))


def test_a_context_too_large_says_what_to_lower(tiny_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="lower n_ctx or n_sequences"):
        LlamaBackend(EngineConfig(n_ctx=256, n_sequences=100_000, n_threads=1), tiny_models["llama"])


def test_progress_rises_to_the_end(tiny_models: dict[str, Path]) -> None:
    seen: list[float] = []
    open_model(tiny_models["llama"], on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_a_progress_callback_that_fails_does_not_end_the_load(
    tiny_models: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: float) -> None:
        raise RuntimeError("no")

    assert open_model(tiny_models["llama"], on_progress=fail).metadata("general.architecture") == "llama"
    assert "progress callback failed" in caplog.text


def test_metadata_that_is_not_there(tiny_models: dict[str, Path]) -> None:
    assert open_model(tiny_models["llama"], vocab_only=True).metadata("no.such.key") == ""


QUIET = """
import sys
from inference.backend import Row
from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from inference.llama.vocab import load_vocab
from inference.types import EngineError, NoRoom
good, bad = sys.argv[1:]
load_vocab(good).encode(b"def f():")
backend = LlamaBackend(EngineConfig(n_ctx=256, n_threads=1), good)
backend.set_abort(lambda: False)
backend.decode([Row(0, i, 5) for i in range(40)])
backend.decode([Row(0, 99, 5)])
backend.close()
try:
    LlamaBackend(EngineConfig(n_ctx=256), bad)
except EngineError:
    sys.exit(7)
"""


def test_loading_and_running_write_nothing_to_descriptors_1_and_2(tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(tiny_models["qwen2"].read_bytes()[:-1000])
    command = [sys.executable, "-c", QUIET, str(tiny_models["qwen2"]), str(bad)]
    ended = subprocess.run(command, capture_output=True, timeout=120, cwd=Path(__file__).parents[2])
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, b"", b"")


def test_native_lines_are_put_together_and_errors_kept(caplog: pytest.LogCaptureFixture) -> None:
    log = NativeLog()
    with caplog.at_level("DEBUG"):
        for level, text in ((2, b"loading "), (5, b"...\n"), (4, b"broken \xff\n"), (3, b"odd\n\n"), (2, b"x" * 5000)):
            log._receive(level, text, None)
    lines = [record.message for record in caplog.records]
    assert lines[:3] == ["loading ...", "error: broken \ufffd", "odd"]
    assert re.fullmatch("x{5000}", lines[3])
    assert all(record.levelname == "DEBUG" for record in caplog.records)
    assert log.errors() == ("broken \ufffd", "odd")
    log.clear_errors()
    assert log.errors() == ()
