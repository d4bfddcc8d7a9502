"""Settings: sources, checks, sentences."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.commands.settings_page import render_settings
from lsp_server.config import (
    BOUNDS,
    Config,
    Sources,
    config_file,
    diff,
    load,
    rooms,
)
from lsp_server.workspace import PRIVATE

ROOT = Path(__file__).resolve().parents[2]


def options(value: object) -> tuple[Config, tuple[str, ...]]:
    return load(Sources(options=value))


def test_no_source_is_the_defaults() -> None:
    assert load(Sources()) == (Config(), ())
    server = Config().server
    assert (server.max_tokens, server.reply_deadline_ms, server.adopt_ms, server.typed_through) == (64, 400, 60, True)


def test_names_are_unique_documented_and_within_their_bounds() -> None:
    entries = list(rooms(Config()))
    assert max(Counter(one.name for _, _, one in entries).values()) == 1
    assert set(BOUNDS) <= {one.name for _, _, one in entries}
    for _, part, one in entries:
        assert one.metadata["doc"].endswith("."), one.name
        assert isinstance(one.metadata["live"], bool)
        if one.name in BOUNDS:
            assert BOUNDS[one.name].has(getattr(part, one.name)), one.name


def test_numbers_have_bounds() -> None:
    assert {one.name for _, _, one in rooms(Config()) if one.type in ("int", "float")} <= set(BOUNDS)


@pytest.mark.parametrize(
    "table",
    [
        {"max_tokens": 7, "n_ctx": 2048},
        {"server": {"max_tokens": 7}, "engine": {"n_ctx": 2048}},
        {"server.max_tokens": 7, "engine.n_ctx": 2048},
        {"maxTokens": 7, "engine": {"nCtx": 2048}},
        {"midfill": {"max_tokens": 7.0, "n_ctx": 2048, "adopt_ms": None}},
    ],
)
def test_flat_names_and_tables(table: object) -> None:
    config, problems = options(table)
    assert problems == ()
    assert (config.server.max_tokens, config.engine.n_ctx) == (7, 2048)


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = tmp_path / "midfill.toml"
    file.write_text("max_tokens = 1\nadopt_ms = 1\ndebounce_ms = 1\n[engine]\nn_ctx = 1024\n")
    config, problems = load(Sources(file, options={"adopt_ms": 2, "debounce_ms": 2}, client={"debounce_ms": 3}))
    assert problems == ()
    server = config.server
    assert (server.max_tokens, server.adopt_ms, server.debounce_ms, config.engine.n_ctx) == (1, 2, 3, 1024)


def test_what_somebody_set_is_told_from_the_default_whatever_it_was_set_to(tmp_path: Path) -> None:
    """A GPU that is missing is news only for those who asked for one; the default asks for what there is."""
    file = tmp_path / "midfill.toml"
    file.write_text("n_gpu_layers = -1\n")
    config, _ = load(Sources(file, options={"n_ctx": 1024, "max_tokens": 5}, client={"engine": {"nThreads": 2}}))
    assert config.engine.explicit == {"n_gpu_layers", "n_ctx", "n_threads"} and config.engine.asks_for_gpu
    assert "explicit" not in {one.name for _, _, one in rooms(config)}, "no setting by itself"
    for table, asks in (
        ({}, False), ({"n_gpu_layers": None}, False), ({"n_gpu_layers": -2}, False), ({"n_gpu_layers": 0}, False),
        ({"n_gpu_layers": 1}, True), ({"engine.nGpuLayers": -1}, True), ({"explicit": ["n_gpu_layers"]}, False),
    ):  # fmt: skip
        assert options(table)[0].engine.asks_for_gpu is asks, table
    assert load(Sources(file, options={"n_gpu_layers": 0}))[0].engine.asks_for_gpu is False, "the later source wins"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"max_token": 3}, "initializationOptions: there is no setting 'max_token'; did you mean 'max_tokens'?"),
        ({"engine": {"n_cxt": 3}}, "initializationOptions: there is no setting 'n_cxt'; did you mean 'n_ctx'?"),
        ({"zzzzzz": 3}, "initializationOptions: there is no setting 'zzzzzz'"),
        ({"max_tokens": "3"}, "initializationOptions: max_tokens must be a whole number, from 1 to 4096; 64 stays"),
        ({"max_tokens": True}, "initializationOptions: max_tokens must be a whole number, from 1 to 4096; 64 stays"),
        ({"max_tokens": 0}, "initializationOptions: max_tokens must be a whole number, from 1 to 4096; 64 stays"),
        ({"max_tokens": 1.5}, "initializationOptions: max_tokens must be a whole number, from 1 to 4096; 64 stays"),
        ({"enabled": 1}, "initializationOptions: enabled must be true or false; true stays"),
        ({"layout": "fim"}, 'initializationOptions: layout must be auto or anchored or psm or spm or ltr; "auto" stays'),
        ({"languages_off": "markdown"}, "initializationOptions: languages_off must be a list of texts; [] stays"),
        ({"exclude": [1]}, "initializationOptions: exclude must be a list of texts; the built-in list stays"),
        ({"chunk_ms": float("nan")}, "initializationOptions: chunk_ms must be a number, from 1 to 60000; 250.0 stays"),
        ({"engine": 5}, "initializationOptions: engine must be a table of settings"),
        ([1], "initializationOptions: expected an object with settings"),
    ],
)
def test_what_is_wrong_is_told_and_the_default_stays(table: object, expected: str) -> None:
    assert options(table) == (Config(), (expected,))


def test_one_wrong_value_does_not_spoil_the_others() -> None:
    config, problems = options({"max_tokens": "x", "adopt_ms": 5})
    assert config.server.adopt_ms == 5
    assert len(problems) == 1


def test_exclude_adds_to_the_built_in_list() -> None:
    config, _ = options({"exclude": ["*.secret", "!.env.example"]})
    assert config.server.exclude == (*PRIVATE, "*.secret", "!.env.example")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"max_tokens = 1\nadopt_ms = \n", "line 2"),
        (b"max_tokens = 1\n\n# \xff\n", "line 3 is not UTF-8"),
        (b"a = [" + b"[" * 5000, "the file was not used"),
    ],
)
def test_a_corrupt_file_is_one_sentence_with_the_line(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "midfill.toml"
    file.write_bytes(content)
    config, problems = load(Sources(file))
    assert config == Config()
    assert len(problems) == 1
    assert sentence in problems[0]
    assert str(file) in problems[0]


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "midfill.toml"
    file.write_bytes(b"\xef\xbb\xbfmax_tokens = 5\r\n")
    assert load(Sources(file))[0].server.max_tokens == 5


def test_files_that_are_not_there_or_no_files(tmp_path: Path) -> None:
    assert load(Sources(tmp_path / "none.toml")) == (Config(), ())
    (named,) = load(Sources(tmp_path / "none.toml", is_named=True))[1]
    assert "MIDFILL_CONFIG" in named
    (folder,) = load(Sources(tmp_path))[1]
    assert "can't be read" in folder
    assert len(load(Sources(Path("a\0b")))[1]) == 1


def test_the_environment_names_the_file() -> None:
    assert config_file({"MIDFILL_CONFIG": "some/where.toml"}) == (Path("some/where.toml"), True)
    path, is_named = config_file({})
    assert (path.name, is_named) == ("midfill.toml", False)


def test_diff_tells_what_waits_for_a_restart() -> None:
    new, _ = options({"max_tokens": 3, "n_ctx": 1024, "layout": "psm"})
    assert diff(Config(), new) == (("max_tokens", "layout"), ("n_ctx",))
    assert diff(new, new) == ((), ())


def test_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().server.max_tokens = 1  # type: ignore[misc]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["max_tokens", "engine", "n_ctx", "midfill", "exclude", "engine.model", ""]), inner),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(json_values, json_values)
def test_nothing_raises_and_what_is_loaded_is_valid(first: Any, second: Any) -> None:
    config, problems = load(Sources(options=first, client=second))
    for _, part, one in rooms(config):
        value = getattr(part, one.name)
        assert one.name not in BOUNDS or BOUNDS[one.name].has(value)
        if one.type == "int":
            assert type(value) is int
    assert all(isinstance(problem, str) and "\n" not in problem for problem in problems)


def test_the_written_settings_are_fresh() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == render_settings(), (
        "run `python -m lsp_server.commands.settings_page > docs/settings.md`"
    )


def test_a_number_of_thousands_of_digits_and_a_pipe_are_problems_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "midfill.toml"
    file.write_text("max_tokens = " + "9" * 5000 + "\n")
    config, problems = load(Sources(file))
    assert config == Config() and "too long" in problems[0]
    file.unlink()
    os.mkfifo(file)
    assert "pipe" in load(Sources(file))[1][0]
