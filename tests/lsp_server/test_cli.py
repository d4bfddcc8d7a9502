"""`midfill complete` and `explain`: places, refusals in one sentence, and the JSON's shape, on a tiny real model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_gguf import bpe_vocabulary, write_tiny

SOURCE = "def area(width, height):\n    return width * hei\n\nprint(area(2, 3))  # é🦊\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "tiny.gguf"
    write_tiny(path)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "area.py"
    path.write_text(SOURCE)
    return path


def midfill(*arguments: object, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "MIDFILL_MODELS_DIR": str(home), "XDG_CACHE_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "lsp_server", *map(str, arguments)],
        capture_output=True, text=True, env=environment, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def test_complete_json(model: Path, source: Path, tmp_path: Path) -> None:
    done = midfill("complete", f"{source}:2:23", "--json", "--model", model, "--max-tokens", 6, home=tmp_path)
    assert done.returncode == 0, done.stderr
    got: dict[str, Any] = json.loads(done.stdout)
    assert got["n_prompt_tokens"] == got["n_reused_tokens"] + got["n_evaluated_tokens"] > 10
    assert got["healing"] == " hei" and got["n_healing_tokens"] >= 1 and got["n_generated_tokens"] <= 6
    assert got["finish"] in ("stop", "length", "line") and got["layout"] == "anchored"
    ms = dict(got["ms"])
    assert set(ms) == {"read", "assemble", "tokenize", "queue", "prefill", "decode", "postprocess", "deliver", "total"}
    assert sum(ms.values()) - ms["total"] == pytest.approx(ms["total"], rel=0.02)
    assert ms["prefill"] > 0 and all(v >= 0 for v in ms.values())
    assert (got["text"] == "") == bool(got["reason"])


def test_several_candidates(model: Path, source: Path, tmp_path: Path) -> None:
    arguments = ("complete", f"{source}:2:23", "--model", model, "--max-tokens", 6, "--n-candidates", 3)
    got = json.loads(midfill(*arguments, "--json", home=tmp_path).stdout)
    assert 2 <= len(got["candidates"]) <= 3 and got["text"] == got["candidates"][0]
    assert len(set(got["candidates"])) == len(got["candidates"])
    shown = midfill(*arguments, home=tmp_path).stdout
    assert all(f"[{rank}] {text}\n" in shown for rank, text in enumerate(got["candidates"], 1))
    refused = midfill(*arguments[:-1], 9, home=tmp_path)
    assert refused.returncode == 2 and "from 1 to 8" in refused.stderr


def test_psm_has_no_healing(model: Path, source: Path, tmp_path: Path) -> None:
    done = midfill("complete", f"{source}:2:23", "--json", "--model", model, "--layout", "psm", home=tmp_path)
    got = json.loads(done.stdout)
    assert (got["layout"], got["healing"], got["n_healing_tokens"]) == ("psm", "", 0)


def test_explain(model: Path, source: Path, tmp_path: Path) -> None:
    done = midfill("explain", f"{source}:2:23", "--model", model, home=tmp_path)
    assert done.returncode == 0 and "anchor: line 2, byte 0; healing bytes: ' hei'" in done.stdout
    got = json.loads(midfill("explain", f"{source}:2:23", "--json", "--model", model, home=tmp_path).stdout)
    assert sum(p["n_tokens"] for p in got["pieces"]) == got["n_prompt_tokens"]
    assert got["anchor"] == SOURCE.index("    return")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("area.py", "write PATH:LINE:COLUMN"),
        ("area.py:9:1", "there is no line 9"),
        ("area.py:0:1", "there is no line 0"),
        ("area.py:2:99", "there is no column 99"),
        (f"area.py:{'9' * 5000}:1", "write PATH:LINE:COLUMN"),
        ("pipe:1:1", "no regular file"),
        ("gone.py:1:1", "No such file"),
        (".:1:1", "is a directory"),
        ("blob.bin:1:1", "binary"),
        ("latin.py:2:3", "latin.py is not UTF-8 (line 2)"),
        (".env:1:1", "private file"),
        ("huge.py:1:1", "max_file_bytes"),
    ],
)
def test_bad_places_get_a_sentence(place: str, says: str, model: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "blob.bin").write_bytes(b"\0\1\2" * 100)
    (tmp_path / "latin.py").write_bytes("a = 1\nbéta = 2\n".encode("latin-1"))
    (tmp_path / ".env").write_text("KEY=1\n")
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    done = midfill("complete", f"{tmp_path}/{place}", "--model", model, home=tmp_path)
    assert done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_byte_order_mark_is_no_character_of_the_first_line(model: Path, tmp_path: Path) -> None:
    marked = tmp_path / "marked.py"
    marked.write_bytes(b"\xef\xbb\xbfwidth = hei")
    assert midfill("explain", f"{marked}:1:12", "--model", model, home=tmp_path).returncode == 0
    assert "columns 1 to 12;" in midfill("explain", f"{marked}:1:13", "--model", model, home=tmp_path).stderr


def test_bad_models_get_a_sentence(source: Path, model: Path, tmp_path: Path) -> None:
    plain, short, text = tmp_path / "plain.gguf", tmp_path / "short.gguf", tmp_path / "text.gguf"
    write_tiny(plain, vocabulary=bpe_vocabulary(fim=False))
    short.write_bytes(model.read_bytes()[:-5000])
    text.write_text("hello")
    for command, name, says in (
        ("complete", plain, "fill-in-the-middle"),
        ("explain", short, "cut short"),
        ("complete", text, "GGUF"),
        ("explain", tmp_path / "none.gguf", "none.gguf"),
        ("complete", "qwen2.5-coder-0.5", "qwen2.5-coder-0.5b"),
        ("explain", "qwen2.5-coder-1.5b", "midfill models pull qwen2.5-coder-1.5b"),
    ):
        done = midfill(command, f"{source}:2:23", "--model", name, home=tmp_path)
        assert done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1, (name, done.stderr)


def test_models_and_completions_look_in_the_same_place(source: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    config = tmp_path / "midfill.toml"
    config.write_text(f'models_dir = "{elsewhere}"\n')
    done = subprocess.run(
        [sys.executable, "-m", "lsp_server", "models", "path", "qwen2.5-coder-0.5b"],
        capture_output=True, text=True, env={"HOME": str(tmp_path), "MIDFILL_CONFIG": str(config)}, timeout=60, check=False,
    )  # fmt: skip
    assert str(elsewhere) in done.stdout + done.stderr


def test_columns_count_characters(model: Path, source: Path, tmp_path: Path) -> None:
    got = json.loads(midfill("explain", f"{source}:4:24", "--json", "--model", model, home=tmp_path).stdout)
    assert got["healing"] == "🦊"
