"""`midfill doctor` as a process, on a tiny real model, in the situations that it is there for.

Real: the children, the crashes, the file systems (where one can be mounted), the missing compiler and engine. What a child must
do to crash or to hang is put in its way through PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lsp_server.doctor.child import CURSOR, KEYS, SAMPLE
from lsp_server.doctor.command import Examination
from lsp_server.doctor.findings import Level
from tests.inference.machine import machine
from tests.support.tiny_gguf import bpe_vocabulary, write_tiny

ROOT = Path(__file__).resolve().parent.parent.parent
NO_ENGINE = "raise ModuleNotFoundError(\"No module named 'llama_cpp'\", name='llama_cpp')\n"
# only in the children: the command itself loads no native code, so there it would prove nothing
IN_CHILDREN = "import sys\nif '-P' in sys.orig_argv and '-m' not in sys.orig_argv:\n    import llama_cpp\n    "


@dataclass
class House:
    """A user's home: settings, caches, models, and what stands in the way."""

    home: Path
    model: Path
    path: str = os.environ.get("PATH", os.defpath)

    def environment(self) -> dict[str, str]:
        names = {"MIDFILL_CONFIG": "midfill.toml", "MIDFILL_MODELS_DIR": "models", "XDG_CACHE_HOME": "cache", "HOME": "."}
        places = {name: str(self.home / place) for name, place in names.items()}
        return {**places, "PATH": self.path, "PYTHONPATH": str(self.home / "way")}

    @property
    def cache(self) -> Path:
        return self.home / "cache" / "midfill"

    def settings(self, text: str) -> None:
        (self.home / "midfill.toml").write_text(text)

    def in_the_way(self, name: str, code: str) -> None:
        path = self.home / "way" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)

    def doctor(self, *arguments: str, model: str | None = None, before: Sequence[str] = ()) -> Report:
        chosen = ["--model", str(self.model) if model is None else model]
        command = [*before, sys.executable, "-m", "lsp_server", "doctor", "--json", *chosen, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment(), cwd=ROOT, timeout=300, check=False
        )
        assert done.returncode in (0, 1) and done.stderr == "", done.stderr
        report = Report(json.loads(done.stdout), done.returncode)
        assert report.told["works"] == (report.code == 0) == (not report.levels("fault"))
        return report


@dataclass
class Report:
    told: dict[str, Any]
    code: int

    def levels(self, level: str) -> list[str]:
        return [each["topic"] for each in self.told["findings"] if each["level"] == level]

    def __getitem__(self, topic: str) -> dict[str, str]:
        found = [each for each in self.told["findings"] if each["topic"] == topic]
        assert found, f"nothing is said of {topic}: {self.told['findings']}"
        return dict(found[0])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("doctor") / "tiny.gguf")


@pytest.fixture
def house(tmp_path: Path, model: Path) -> House:
    made = House(tmp_path, model)
    made.settings("")
    made.cache.mkdir(parents=True, mode=0o700)
    (tmp_path / "models").mkdir()
    return made


def test_all_is_well(house: House) -> None:
    report = house.doctor()
    assert report.code == 0 and report.levels("fault") == []
    assert report["completion"]["level"] == "ok" and "prompt tokens" in report["completion"]["text"]
    assert report["model"]["level"] == report["vocabulary"]["level"] == report["memory"]["level"] == "ok"
    assert report["cache"]["level"] == report["engine"]["level"] == "ok" and "CPU" in report.told["build"]["backends"]
    done = report.told["completion"]
    assert len(done["warm"]) == len(KEYS) and done["cold"]["n_prompt_tokens"] > 50 and done["step_ms"] > 0
    assert max(each["n_evaluated_tokens"] for each in done["warm"]) < done["cold"]["n_prompt_tokens"] / 2  # it was warm
    assert list(house.cache.glob("measured-*.json"))  # the product's own path


def test_for_people_it_is_one_line_each(house: House) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lsp_server", "doctor", "--no-completion", "--model", str(house.model)],
        capture_output=True, text=True, env=house.environment(), cwd=ROOT, timeout=300, check=False,
    )  # fmt: skip
    *lines, empty, last = done.stdout.splitlines()
    assert done.returncode == 0 and empty == "" and last.startswith("midfill works")
    assert len(lines) > 10 and all(line.split()[0] in ("ok", "note", "warning", "fault") for line in lines)
    assert any(line.startswith("note     completion    not tried") for line in lines)


# -- the engine


def test_no_compiler(house: House, tmp_path: Path) -> None:
    """With an engine that is no fault; without one it is, and one line names what to install."""
    house.path = str(tmp_path / "nothing")
    report = house.doctor("--no-completion")
    assert report.code == 0 and report["compiler"]["level"] == "note"
    house.in_the_way("llama_cpp/__init__.py", NO_ENGINE)
    report = house.doctor()
    assert report.code == 1 and report["compiler"]["level"] == "fault" and "engine_wheels" in report["compiler"]["do"]
    assert report["engine"]["text"] == "llama-cpp-python is not installed"
    assert report["engine"]["do"].startswith("first ") and "-m pip install" in report["engine"]["do"]
    assert "no engine" in report["completion"]["text"]


def test_wheels_from_the_settings(house: House) -> None:
    house.settings('engine_wheels = "https://host.test/cpu"\n')
    house.in_the_way("llama_cpp/__init__.py", NO_ENGINE)
    do = house.doctor("--no-completion")["engine"]["do"]
    assert "--extra-index-url https://host.test/cpu" in do and "CMAKE_ARGS" not in do


def test_an_engine_for_another_cpu(house: House) -> None:
    house.in_the_way("llama_cpp/__init__.py", "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    report = house.doctor()
    assert report.code == 1 and "SIGILL" in report["engine"]["text"] and "-DGGML_NATIVE=on" in report["engine"]["do"]
    assert {"python", "cache", "model"} <= set(report.levels("ok"))  # the others went on


def test_a_gpu_asked_for_and_absent(house: House) -> None:
    house.settings("n_gpu_layers = 20\n")
    report = house.doctor()
    if report.told["build"]["can_offload"]:
        pytest.skip("this build has a GPU to use")
    assert report["gpu"]["level"] == "warning" and "n_gpu_layers is 20" in report["gpu"]["text"]
    assert "the CPU is used" in report["gpu"]["text"] and "n_gpu_layers = 0" in report["gpu"]["do"]
    assert report.code == 0 and report["completion"]["level"] == "ok"


def test_a_native_crash_while_completing(house: House) -> None:
    crash = "import ctypes; llama_cpp.llama_decode = lambda *_: ctypes.string_at(8)\n"
    house.in_the_way("sitecustomize.py", IN_CHILDREN + crash)
    report = house.doctor()
    assert report.code == 1 and report["completion"]["level"] == "fault"
    assert "while loading the model" in report["completion"]["text"] and "SIGSEGV" in report["completion"]["text"]
    assert report["engine"]["level"] == "ok"


def test_a_completion_that_never_ends(house: House) -> None:
    house.in_the_way("sitecustomize.py", IN_CHILDREN + "import time; llama_cpp.llama_decode = lambda *_: time.sleep(600)\n")
    report = house.doctor("--timeout", "4")
    assert report.code == 1 and "took longer than 4 s" in report["completion"]["text"]
    assert "--timeout" in report["completion"]["do"]


def test_what_native_code_prints_is_no_answer(house: House) -> None:
    noise = (
        "import os; decode = llama_cpp.llama_decode\n"
        """    llama_cpp.llama_decode = lambda *a: (os.write(1, b'{"error": "noise"}\\n'), decode(*a))[1]\n"""
    )
    house.in_the_way("sitecustomize.py", IN_CHILDREN + noise)
    report = house.doctor()
    assert report.code == 0 and report["completion"]["level"] == "ok"


# -- the model


def test_no_model(house: House) -> None:
    report = house.doctor(model="qwen2.5-coder-0.5b")
    assert report.code == 1 and report["model"]["level"] == "fault" and "not on disk" in report["model"]["text"]
    assert "midfill models pull qwen2.5-coder-0.5b" in report["model"]["do"]
    assert "no model" in report["completion"]["text"]


def test_no_model_and_none_named(house: House) -> None:
    """The setting is "auto": the one that fits this machine is named, with the space that it needs."""
    report = house.doctor(model="auto")
    assert report.code == 1 and report["model"]["level"] == "fault"
    assert "midfill models pull" in report["model"]["text"] + report["model"]["do"]


def test_a_misspelt_model(house: House) -> None:
    report = house.doctor(model="qwen2.5-coder-0.5")
    assert report.code == 1 and "did you mean qwen2.5-coder-0.5b" in report["model"]["text"] + report["model"]["do"]


def test_a_truncated_model(house: House, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(house.model.read_bytes()[:-5000])
    report = house.doctor(model=str(short))
    assert report.code == 1 and report["model"]["level"] == "fault" and "cut short" in report["model"]["text"]
    assert "pull it again" in report["model"]["do"] and "no model" in report["completion"]["text"]


def test_a_damaged_vocabulary_ends_no_one(house: House, tmp_path: Path) -> None:
    """Whatever llama.cpp does with it: a line, and the rest goes on."""
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(house.model.read_bytes().replace(b"tokenizer.ggml.merges", b"tokenizer.ggml.nerges"))
    report = house.doctor("--no-completion", model=str(bad))
    assert report["vocabulary"]["level"] == "fault" and report.code == 1 and report["cache"]["level"] == "ok"


def test_a_model_that_cant_fill_in_the_middle(house: House, tmp_path: Path) -> None:
    plain = write_tiny(tmp_path / "plain.gguf", vocabulary=bpe_vocabulary(fim=False))
    report = house.doctor(model=str(plain))
    assert report.code == 1 and report["vocabulary"]["level"] == "fault" and report["completion"]["level"] == "fault"


def test_the_digest_only_when_asked(house: House) -> None:
    assert "digest" not in house.doctor("--no-completion").levels("note")
    assert "digest" in house.doctor("--no-completion", "--verify").levels("note")  # a file by its path has none
    wrong = house.home / "models" / "qwen2.5-coder-0.5b.gguf"
    with wrong.open("wb") as file:
        file.write(house.model.read_bytes())
        file.truncate(491_400_064)
    report = house.doctor("--no-completion", "--verify", model="qwen2.5-coder-0.5b")
    assert report.code == 1 and "SHA-256" in report["digest"]["text"]


# -- settings and places


def test_settings_that_are_wrong(house: House) -> None:
    house.settings('n_ctxx = 1\nmax_tokens = "many"\nenabled = false\n')
    report = house.doctor("--no-completion")
    texts = [each["text"] for each in report.told["findings"] if each["topic"] == "settings"]
    assert len(texts) == 3 and "'n_ctx'" in texts[0] and "max_tokens" in texts[1] and "switched off" in texts[2]
    assert report.levels("warning") == ["settings"] * 3 and report.code == 0


def _mounting(commands: str) -> list[str]:
    """A prefix that mounts in a namespace of its own, then runs what follows. Skips where that is not possible."""
    unshare = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-e", "-c"]
    trial = [*unshare, "mount -t tmpfs none /mnt"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    return [*unshare, f'{commands}; exec "$@"', "sh"]


def test_a_read_only_cache(house: House) -> None:
    before = _mounting(f"mount --bind {house.cache} {house.cache}; mount -o remount,ro,bind {house.cache}")
    report = house.doctor(before=before)
    assert report["cache"]["level"] == "warning" and "read-only" in report["cache"]["text"]
    assert report.code == 0 and report["completion"]["level"] == "ok"  # slower to start, but it works


def test_no_space_for_the_cache(house: House) -> None:
    report = house.doctor(before=_mounting(f"mount -t tmpfs -o size=16k,mode=0700 none {house.cache}"))
    assert report["cache"]["level"] == "warning" and report["cache"]["do"] == "make room on its disk"
    assert report.code == 0 and report["completion"]["level"] == "ok"


def test_no_space_for_the_model(house: House) -> None:
    before = _mounting(f"mount -t tmpfs -o size=1m none {house.home / 'models'}")
    report = house.doctor("--no-completion", model="qwen2.5-coder-0.5b", before=before)
    assert report.code == 1 and report["model"]["level"] == "fault"
    assert report["space"]["level"] == "warning" and "models_dir" in report["space"]["do"]
    assert "491 MB" in report["space"]["text"] and "1.0 MB are free" in report["space"]["text"]


def test_a_model_that_does_not_fit_is_not_tried(monkeypatch: pytest.MonkeyPatch, house: House, tmp_path: Path) -> None:
    for name, value in house.environment().items():
        monkeypatch.setenv(name, value)
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "100000\n", "proc/cpuinfo": ""}
    found = list(Examination(str(house.model), look=machine(tmp_path / "small", files)).findings())
    assert [each.topic for each in found if each.level is Level.FAULT] == ["memory"]
    assert found[-1].topic == "completion" and "no memory for it" in found[-1].text


# -- doctor itself


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, house: House) -> None:
    from lsp_server.doctor import command, install

    for name, value in house.environment().items():
        monkeypatch.setenv(name, value)

    def broken() -> None:
        raise TypeError("zz")

    monkeypatch.setattr(install, "python", broken)
    monkeypatch.setattr(command, "_cache_dir", broken)
    found = list(Examination(str(house.model), timeout_s=None).findings())
    failed = {each.topic: each for each in found if "this check failed (TypeError: zz)" in each.text}
    assert set(failed) == {"python", "cache", "saved prompts", "model"}
    assert all(each.level is Level.WARNING for each in failed.values())
    assert found[-1].topic == "completion"


@pytest.mark.parametrize("bad", ["0", "-1", "soon", "nan"])
def test_a_timeout_that_is_none(bad: str, house: House) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lsp_server", "doctor", "--timeout", bad],
        capture_output=True, text=True, env=house.environment(), cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "expected seconds" in done.stderr


def test_the_sample_has_one_cursor() -> None:
    before, after = SAMPLE.split(CURSOR)
    compile(before + KEYS + after, "sample", "exec")


def test_nothing_of_it_is_loaded_by_others() -> None:
    """`midfill --version` and the server start without any of it, and doctor itself without native code."""
    code = (
        "import sys, lsp_server.__main__\n"
        "try: lsp_server.__main__.main(['--version'])\nexcept SystemExit: pass\n"
        "assert not [m for m in sys.modules if m.startswith(('inference', 'lsp_server.')) and m != 'lsp_server.__main__']\n"
        "import lsp_server.app\n"
        "assert not [m for m in sys.modules if 'doctor' in m]\n"
        "import lsp_server.doctor.command\n"
        "assert 'llama_cpp' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
