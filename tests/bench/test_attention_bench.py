"""The bench of attention on a tiny model, and what the setting means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.attention import main
from inference.attention import attention
from inference.config import EngineConfig
from inference.llama.model import LlamaBackend
from inference.memory_need import Options
from tests.support.tiny_gguf import write_tiny


@pytest.mark.parametrize("setting", ["auto", "on", "off"])
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize("on_cpu", [True, False])
def test_only_auto_depends_on_where_a_model_runs(setting: str, kv_type: str, on_cpu: bool) -> None:
    got = attention(setting, kv_type, on_cpu=on_cpu)
    assert got == ("off" if (setting, kv_type, on_cpu) == ("auto", "f16", True) else setting)
    options = Options(512, 1, kv_type, setting, n_gpu_layers=0 if on_cpu else 3)
    assert options.is_flash == (got != "off"), "the plan counts with what is opened"


def test_a_backend_says_what_it_was_opened_with(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", arch="qwen2")
    for kv_type, said, word in (("f16", "off", "off"), ("q8_0", "auto", "q8_0")):
        backend = LlamaBackend(EngineConfig(n_ctx=256, n_gpu_layers=0, kv_type=kv_type), path)
        assert backend.flash_attention == said and backend.build.split()[-1] == word
        backend.close()


def test_both_ways_are_timed_behind_the_same_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", arch="qwen2", n_ctx=2048)
    shape = ["--model", str(path), "--tokens", "20,600", "--rows", "1,3", "--rounds", "2", "--threads", "1"]
    assert main([*shape, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert [(step["tokens"], step["rows"]) for step in made["steps"]] == [(600, 1), (600, 3), (20, 1), (20, 3)]
    assert all(step["ratio"] > 0 and step["on_ms"] > 0 for step in made["steps"]) and set(made["prefill_ms"]) == {"on", "off"}
    assert main(shape) == 0 and "off ÷ on" in capsys.readouterr().out
    assert main(["--model", str(path), "--tokens", "5000"]) == 1
    assert "lower --tokens" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--rows", "1,0"])
