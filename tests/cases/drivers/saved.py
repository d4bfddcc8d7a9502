"""state-restore, disk-cache-robustness, cache-security, and the capacity of the disk: prompts that are saved and put back."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inference.config import EngineConfig
from inference.llama.imprint import open_archive
from inference.llama.model import LlamaBackend
from inference.prompt_cache import rows
from inference.prompt_cache.place import ASIDE, DATABASE
from inference.prompt_cache.store import Put, Store
from tests.cases.case import HANG_S, Case
from tests.cases.drivers.registry import driver
from tests.cases.logs import Logs
from tests.support.feeding import assert_close, feed
from tests.support.saved_prompts import OF, Kept, record, tokens, value_files, wait_until
from tests.support.saving_engine import SavingEngine
from tests.support.tiny_gguf import write_tiny

ROOT = Path(__file__).resolve().parents[3]
States = dict[bytes, tuple[int, ...]]


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def saved(place: Path, states: States, *numbers: int) -> None:
    """By an engine that is gone."""
    engine = SavingEngine(place, states)
    for i in numbers:
        engine.say(tokens(i, 400))
        engine.rest()
    engine.kill()
    assert engine.stats.n_saves == len(numbers)


def as_cold(engine: SavingEngine, *numbers: int) -> None:
    """Completions equal those of an engine without anything, and find nothing of theirs."""
    with folder() as empty:
        cold = SavingEngine(empty / "p")
        for i in numbers:
            said = engine.say(tokens(i, 400))
            again = cold.say(tokens(i, 400))
            assert (said.text, said.finish) == (again.text, again.finish), f"another text for {i}"
            assert said.stats.n_reused == 0, f"{said.stats.n_reused} tokens reused"
        cold.kill()


@driver("state-restore-01")
async def larger_before_smaller(case: Case) -> str:
    short, long = (int(n) for n in re.findall(r"\((\d+) tokens\)", case.input["setup"]))
    with folder() as home:
        backend = LlamaBackend(EngineConfig(n_ctx=1024, n_threads=1, n_gpu_layers=0), write_tiny(home / "tiny.gguf"))
        paths = [tuple(3 + (i * 17 + k * k) % 290 for k in range(n)) for i, n in ((1, short), (2, long))]
        states, want = [], []
        for path in paths:
            assert backend.truncate(0, 0)
            for start in range(0, len(path), 300):
                feed(backend, 0, path[start : start + 300], start)
            states.append(backend.save(0) or b"")
            want.append(feed(backend, 0, [5, 6], len(path)))
            assert states[-1] and backend.truncate(0, 0)
        for order in ((1, 0), (0, 1), (0, 0), (1, 1)):
            for i in order:
                assert backend.truncate(0, 0) and backend.restore(0, states[i], len(paths[i])), "it was not taken back"
            last = order[-1]
            assert_close(feed(backend, 0, [5, 6], len(paths[last])), want[last])
        assert not backend.restore(1, states[0][:-7], short) and backend.seq_length(1) == 0, "a failing load is told, not fatal"
        backend.close()
    return "four orders; what is cut is refused"


@driver("state-restore-02")
async def corrupted(case: Case) -> str:
    n, *shares = (int(number) for number in re.findall(r"\d+", case.input["setup"]))
    n_after = int(re.findall(r"next (\d+) completions", case.expected["note"])[0])
    for how in (*shares, "truncated"):
        with folder() as home, Logs() as logs:
            states: States = {}
            saved(home / "p", states, 1)
            (file,) = value_files(home / "p")
            data = file.read_bytes()
            at = len(data) // 2 if isinstance(how, str) else len(data) * how // 100
            rest = b"" if isinstance(how, str) else bytes(b ^ 255 for b in data[at : at + n]) + data[at + n :]
            file.write_bytes(data[:at] + rest)
            engine = SavingEngine(home / "p", states)
            as_cold(engine, *range(1, 1 + n_after))
            wait_until(lambda engine=engine: engine.stats.n_discarded == 1 and engine.stats.n_saved == 0)  # type: ignore[misc]
            assert not value_files(home / "p"), "the bad entry is there still"
            assert engine.backend.n_restored == 0, "it was given to the model"
            assert any("discarded" in line for line in logs.above(logging.INFO)), "nobody was told"
            engine.kill()
    return f"{len(shares) + 1} kinds of damage, each found before the model saw it"


@driver("state-restore-04")
async def empty_and_missing(case: Case) -> str:
    with folder() as home:
        backend = LlamaBackend(EngineConfig(n_ctx=512, n_threads=1, n_gpu_layers=0), write_tiny(home / "tiny.gguf"))
        assert backend.save(0) is None and not backend.restore(0, b"", 0) and backend.seq_length(0) == 0
        feed(backend, 0, [5, 6, 7])
        backend.close()
        states: States = {}
        engine = SavingEngine(home / "p", states)
        engine.rest()
        assert engine.stats.n_saves == 0, "nothing was saved as something"
        engine.say(tokens(1, 400))
        n_before = engine.engine.kv.n_known(tokens(1, 400))
        engine.rest()
        for file in value_files(home / "p"):
            file.unlink()
        said = engine.say((*tokens(2, 400),))
        assert said.stats.n_reused == 0
        assert engine.engine.kv.n_known(tokens(1, 400)) == n_before == 400, "what was warm has gone"
        engine.kill()
        again = SavingEngine(home / "p", states)
        as_cold(again, 1)
        assert again.stats.disk_misses[0][0] == "gone"
        again.kill()
    return "no state of nothing; a missing one is a miss"


@driver("disk-cache-robustness-01")
async def damaged_database(case: Case) -> str:
    assert all(words in case.input["setup"] for words in ("4 KiB in the middle", "to 100 bytes", "with text"))
    for how in ("middle", "cut", "text"):
        with folder() as home:
            place, states = home / "p", States()
            saved(place, states, *range(1, 4))
            data = (place / DATABASE).read_bytes()
            middle = len(data) // 2
            spoilt = {
                "middle": data[:middle] + b"\xa5" * 4096 + data[middle + 4096 :],
                "cut": data[:100],
                "text": b"text\n" * 99,
            }
            (place / DATABASE).write_bytes(spoilt[how])
            with Logs() as logs:
                engine = SavingEngine(place, states)
                first, second = engine.say(tokens(1, 400)), engine.say(tokens(1, 400))
                assert first.text == second.text != "" and first.stats.n_reused == 0 and second.stats.n_reused > 0
                engine.rest()
                engine.end()
                warnings = logs.above(logging.INFO)
                assert len(warnings) == 1 and "set aside" in warnings[0], f"{how}: {warnings}"
            assert (place / ASIDE).exists() and engine.stats.n_saves >= 1
            with Logs() as logs:
                engine = SavingEngine(place, states)
                assert engine.say(tokens(1, 400)).stats.n_reused >= 399, "the new one keeps nothing"
                engine.kill()
                assert logs.above(logging.INFO) == []
    return "set aside, made anew, said once"


@driver("disk-cache-robustness-02")
async def many_at_once(case: Case) -> str:
    n, n_prompts = (int(number) for number in re.findall(r"\d+", case.input["setup"]))
    with folder() as home:
        done = subprocess.run(
            [sys.executable, "-m", "tests.cases.saving_servers", str(home / "p"), str(n), str(n_prompts)],
            cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-800:]
        told = json.loads(done.stdout)
    assert told["errors"] == [], told["errors"][:3]
    assert sum(told["n_saves"]) > 0, "nobody saved anything"
    return f"{n} engines, {sum(told['n_saves'])} saves"


class Pwned:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@driver("cache-security-01")
async def pickles(case: Case) -> str:
    (name,) = (word.split()[0] for word in case.expected["must_not"])
    with folder() as home:
        pwned = home / name
        bomb = pickle.dumps(Pwned(pwned))
        states: States = {}
        for how in ("row", "row and file", "file"):
            place = home / how.replace(" ", "-")
            saved(place, states, 1)
            with sqlite3.connect(place / DATABASE) as connection:
                like = rows.state(OF, b"")
                if how != "file":
                    value = bomb if how == "row" else None
                    rest = "filename = NULL" if how == "row" else "filename = filename"
                    connection.execute(
                        f"UPDATE Cache SET mode = 4, value = ?, {rest} WHERE substr(key, 1, ?) = ?", (value, len(like), like)
                    )
            connection.close()
            for file in value_files(place):
                file.write_bytes(bomb)
            engine = SavingEngine(place, states)
            as_cold(engine, 1)
            wait_until(lambda engine=engine: engine.stats.n_saved == 0)  # type: ignore[misc]
            engine.kill()
            assert not pwned.exists(), f"{how}: code was run"
            assert not Kept(place).store.listed(), f"{how}: it is there still"
    for line in ("pickle", "marshal", "eval(", "exec("):
        for source in (ROOT / "inference" / "prompt_cache").glob("*.py"):
            code = re.sub(r'""".*?"""|#[^\n]*', "", source.read_text(), flags=re.DOTALL)
            assert line not in code.replace("disk_pickle_protocol", ""), f"{source.name} has {line}"
    return "a row, a file, both: a miss each, and gone"


@driver("cache-security-02")
async def whose_directory(case: Case) -> str:
    setup = case.input["setup"]
    told = []
    for variant in setup["variants"]:
        with folder() as home:
            place, states = home / "p", States()
            if "0777" in variant:
                place.mkdir()
                place.chmod(0o777)
            elif "another uid" in variant:
                place.mkdir(mode=0o700)
                if os.geteuid() != 0:
                    continue  # only root can give one away
                os.chown(place, 65534, -1)
            elif "symlink" in variant:
                (home / "shared").mkdir()
                (home / "shared").chmod(0o777)
                place.symlink_to(home / "shared")
            else:
                assert variant == "dir absent"
            before = os.umask(int(setup["umask"], 8))
            try:
                with Logs() as logs:
                    engine = SavingEngine(place, states)
                    as_cold(engine, 1, 2)
                    engine.rest()
                    engine.end()
            finally:
                os.umask(before)
            warnings = [line for line in logs.above(logging.INFO) if "asyncio" not in line]
            if variant == "dir absent":
                assert warnings == [] and engine.stats.n_saves == 2
                modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (place, *place.rglob("*"))}
                assert all(mode == (0o700 if path.is_dir() else 0o600) for path, mode in modes.items()), modes
            else:
                assert len(warnings) == 1, f"{variant}: {warnings}"
                assert engine.stats.n_saves == 0 and list(place.iterdir()) == []
            told.append(variant)
    return ", ".join(told)


@driver("memory-and-capacity-01")
async def capacity(case: Case) -> str:
    """A thousandth of the case's sizes, through the setting and the store."""
    setup = case.input["setup"]
    limit, state, n = setup["capacity_gb"] * 1_000_000, setup["state_mb"] * 1000, setup["entries"]
    with folder() as home:
        model = write_tiny(home / "tiny.gguf")
        config = EngineConfig(n_ctx=512, n_threads=1, n_gpu_layers=0, prompt_cache_bytes=limit)
        backend = LlamaBackend(config, model)
        archive = open_archive(config, backend, model, home)
        assert archive is not None
        wait_until(lambda: not archive.is_opening)
        assert archive.figures().limit_bytes == limit, "the setting is not what the store keeps to"
        archive.close(20.0)
        backend.close()
        kept = Kept(home / "p", limit)
        for i in range(2 * n):
            assert kept.put(i, n_state=state) is Put.STORED and kept.has(i, n_state=state), f"entry {i} vanished"
            assert kept.n_bytes <= limit
        assert len(kept.store.listed()) == limit // record(0, 300, state).n_bytes
        with Logs() as logs:
            large = SavingEngine(home / "q", States(), store=Store(home / "q", 100))
            large.say(tokens(1, 400))
            large.rest()
            large.kill()
            assert large.stats.n_saved == 0 and any("too large" in line for line in logs.above(logging.INFO))
    return f"{2 * n} entries of {state:,} bytes in {limit:,}"
