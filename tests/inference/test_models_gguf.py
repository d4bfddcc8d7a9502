"""The header reader: what it finds in a good file, and one helpful sentence for every bad one."""

from __future__ import annotations

import builtins
import os
import struct
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.models import gguf
from inference.models.gguf import Header, check
from inference.models.registry import MODELS
from inference.types import EngineError
from tests.inference.models_support import gguf_bytes, number, pair, sample_gguf, string, strings, tensor, text

SAMPLE = sample_gguf()
HUGE = 2**64 - 1


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    return path


def outcome(data: bytes) -> Header | str:
    """What `check` makes of a file; anything but a header or an EngineError of one line fails the test."""
    handle, name = tempfile.mkstemp(suffix=".gguf")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return check(Path(name))
    except EngineError as error:
        assert "\n" not in str(error)
        return str(error)
    finally:
        os.unlink(name)


def refused(path: Path) -> str:
    with pytest.raises(EngineError) as error:
        check(path)
    return str(error.value)


def test_a_good_file_tells_all(tmp_path: Path) -> None:
    header = check(write(tmp_path, SAMPLE))
    assert header == Header(
        version=3,
        architecture="qwen2",
        name="Sample",
        kind="model",
        n_tensors=2,
        n_bytes=len(SAMPLE),
        n_bytes_expected=len(SAMPLE),
        context_length=32768,
        tokenizer_model="gpt2",
        tokenizer_pre="qwen2",
        n_vocab=4,
        fim_hint=(1, 2, 3),
    )


def test_version_2_is_read_too(tmp_path: Path) -> None:
    assert check(write(tmp_path, SAMPLE.replace(b"GGUF\x03", b"GGUF\x02", 1))).version == 2


def test_without_all_three_ids_there_is_no_hint(tmp_path: Path) -> None:
    pairs = [number("tokenizer.ggml.prefix_token_id", 1), number("tokenizer.ggml.suffix_token_id", 2)]
    assert check(write(tmp_path, gguf_bytes(pairs, [tensor("t", (1,), 0, 0)], b"\0" * 4))).fim_hint is None


def test_values_larger_than_a_block_are_skipped(tmp_path: Path) -> None:
    words = strings("x.words", ["w" * 1000] * 3000)  # three blocks of strings
    pairs = [
        words,
        string("x.long", "l" * 3_000_000),
        string("general.name", "n" * 70_000),
        string("general.architecture", "a"),
    ]
    header = check(write(tmp_path, gguf_bytes(pairs, [tensor("t", (1,), 0, 0)], b"\0" * 4)))
    assert (header.architecture, header.name) == ("a", "")


def test_alignment_and_unknown_tensor_types_count(tmp_path: Path) -> None:
    pairs = [number("general.alignment", 64)]
    data = gguf_bytes(pairs, [tensor("t", (5, 5), 999, 640)], b"\0" * 640, alignment=64)
    assert check(write(tmp_path, data)).n_bytes_expected == len(data)


def test_cut_in_the_tensors_names_both_sizes(tmp_path: Path) -> None:
    message = refused(write(tmp_path, SAMPLE[:-1]))
    assert f"{len(SAMPLE) - 1:,} bytes" in message
    assert f"{len(SAMPLE):,}" in message
    assert "pull it again" in message


def test_cut_anywhere_is_refused() -> None:
    kinds = set()
    for n in range(len(SAMPLE)):
        found = str(outcome(SAMPLE[:n]))
        kinds.add("empty" if "is empty" in found else "header" if "before its header does" in found else "tensors")
        assert "begins with" not in found and not found.startswith("Header(")
    assert kinds == {"empty", "header", "tensors"}


def test_more_than_expected_is_fine(tmp_path: Path) -> None:
    assert check(write(tmp_path, SAMPLE + b"more")).n_bytes == len(SAMPLE) + 4


def test_a_vocabulary_is_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path, gguf_bytes([strings("tokenizer.ggml.tokens", ["a", "b"])], []))
    assert "only a vocabulary and no weights" in refused(path)
    header = check(path, vocabulary=True)
    assert (header.is_vocabulary_only, header.n_vocab) == (True, 2)


@pytest.mark.parametrize("kind", ["adapter", "mmproj", "imatrix"])
def test_what_is_not_a_model_is_told_apart(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path, gguf_bytes([string("general.type", kind)], [tensor("t", (1,), 0, 0)], b"\0" * 4))
    assert "not a model" in refused(path)


def test_paths_that_lead_to_no_file(tmp_path: Path) -> None:
    assert "There is no file" in refused(tmp_path / "none.gguf")
    assert "There is no file" in refused(write(tmp_path, SAMPLE) / "below.gguf")
    assert "is a directory" in refused(tmp_path)
    for impossible in ("a\0b", "n" * 5000):
        assert "cannot be read" in refused(tmp_path / impossible)


@pytest.mark.skipif(sys.platform == "win32", reason="no FIFOs")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(tmp_path / "pipe")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, SAMPLE)
    real = builtins.open

    def denied(file: Any, *args: Any, **kwargs: Any) -> Any:
        if file == path:
            raise PermissionError(13, "Permission denied", str(path))
        return real(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", denied)
    message = refused(path)
    assert "cannot be read (permission denied)" in message
    assert "permissions" in message


@pytest.mark.parametrize(
    ("begin", "shown"),
    [
        (b"PK\x03\x04rest", "bytes 50 4b 03 04, not GGUF"),
        (b"<!DOCTYPE html>", 'begins with "<!DO", not GGUF'),
        (b"\x00", "bytes 00, not GGUF"),
        (b"GGML\x03\x00\x00\x00", 'begins with "GGML", not GGUF'),
        (b"version https://git-lfs" + b"/spec", "Git LFS"),
    ],
)
def test_another_format_is_named_by_its_beginning(tmp_path: Path, begin: bytes, shown: str) -> None:
    assert shown in refused(write(tmp_path, begin))


@pytest.mark.parametrize(("version", "words"), [(1, "GGUF version 1"), (4, "GGUF version 4"), (0, "GGUF version 0")])
def test_an_unsupported_version(tmp_path: Path, version: int, words: str) -> None:
    assert words in refused(write(tmp_path, b"GGUF" + struct.pack("<IQQ", version, 0, 0)))


def test_the_other_byte_order(tmp_path: Path) -> None:
    assert "byte order" in refused(write(tmp_path, b"GGUF" + struct.pack(">IQQ", 3, 0, 0)))


@pytest.mark.parametrize(
    ("pairs", "tensors", "words"),
    [
        ([pair("k", 13, b"\0" * 8)], [], "value type 13"),
        ([pair("general.name", 77, b"\0" * 8)], [], "value type 77"),
        ([pair("k", 9, struct.pack("<IQ", 9, 1) + b"\0" * 20)], [], "item type 9"),
        ([number("general.alignment", 24)], [tensor("t", (1,), 0, 0)], "alignment 24"),
        ([number("general.alignment", 0)], [tensor("t", (1,), 0, 0)], "alignment 0"),
        ([], [tensor("t", (1, 1, 1, 1, 1), 0, 0)], "5 dimensions"),
        ([number("k" * 66_000, 1)], [], "a name of 66,000 bytes"),
    ],
)
def test_nonsense_is_called_damage(tmp_path: Path, pairs: list[bytes], tensors: list[bytes], words: str) -> None:
    message = refused(write(tmp_path, gguf_bytes(pairs, tensors, b"\0" * 100)))
    assert "damaged header" in message
    assert words in message


def absurd_files() -> list[bytes]:
    head = b"GGUF" + struct.pack("<I", 3)
    counts = [head + struct.pack("<QQ", t, n) + b"\0" * 64 for t, n in ((HUGE, 0), (0, HUGE), (HUGE, HUGE), (2**40, 1))]
    one = head + struct.pack("<QQ", 0, 1)
    arrays = [
        one + text("k") + struct.pack("<IIQ", 9, kind, n) + b"\0" * 64 for kind in (0, 8, 10) for n in (HUGE, 2**61, 10**6)
    ]
    lengths = [one + struct.pack("<Q", n) + b"k" * 64 for n in (HUGE, 2**62)]
    lengths += [one + text(key) + struct.pack("<IQ", 8, HUGE) + b"v" * 64 for key in ("k", "general.name")]
    inner = struct.pack("<IQ", 8, 2) + struct.pack("<Q", HUGE - 3) + b"\0" * 64
    return counts + arrays + lengths + [one + text("k") + struct.pack("<I", 9) + inner]


@pytest.mark.parametrize("counts", [(HUGE, 0), (0, HUGE), (1 << 21, 0), (0, 1 << 17)])
def test_absurd_counts_are_not_looped_over(tmp_path: Path, counts: tuple[int, int]) -> None:
    """The zeros would be read as empty entries."""
    data = b"GGUF" + struct.pack("<IQQ", 3, *counts) + b"\0" * 4_000_000
    assert f"({counts[1]:,} values and {counts[0]:,} tensors)" in refused(write(tmp_path, data))


@pytest.mark.parametrize("data", absurd_files())
def test_absurd_counts_and_lengths_cost_nothing(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path, data)
    tracemalloc.start()
    try:
        refused(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def test_absurd_tensor_sizes_are_only_numbers(tmp_path: Path) -> None:
    assert "cut short" in refused(write(tmp_path, gguf_bytes([], [tensor("t", (HUGE,) * 4, 0, HUGE)])))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_garbage_is_refused_in_a_sentence(data: bytes) -> None:
    assert isinstance(outcome(data), str) or data.startswith(b"GGUF")


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_garbage_behind_a_good_beginning(data: bytes) -> None:
    outcome(b"GGUF\x03\x00\x00\x00" + data)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(8, len(SAMPLE) - 129),
    st.sampled_from([b"\xff" * 8, b"\x00" * 8, b"\x7f", b"\x80"]) | st.binary(min_size=1, max_size=9),
)
def test_a_good_header_with_some_bytes_changed(at: int, change: bytes) -> None:
    outcome(SAMPLE[:at] + change + SAMPLE[at + len(change) :])


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(names, st.integers(0, 2**32 - 1) | names | st.lists(names, max_size=4), max_size=6),
    names,
    st.integers(1, 9),
)
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], name: str, n: int) -> None:
    writers: dict[type, Callable[[str, Any], bytes]] = {int: number, str: string, list: strings}
    pairs = [writers[type(value)]("x." + key, value) for key, value in values.items()]
    pairs.insert(len(pairs) // 2, string("general.name", name))
    tensors = [tensor(f"t{i}", (32, i + 1), 2, 576 * i) for i in range(n)]
    data = gguf_bytes(pairs, tensors, b"\0" * (576 * (n - 1) + 18 * n))
    header = outcome(data)
    assert isinstance(header, Header)
    assert (header.name, header.n_tensors, header.n_bytes_expected) == (name, n, len(data))


def test_the_refusal_of_a_model_without_fim_says_why_and_what_else() -> None:
    message = str(gguf.refuse_without_fim("SmolLM2-135M"))
    assert message.startswith("SmolLM2-135M has no fill-in-the-middle tokens, so it cannot complete in the middle of a file.")
    assert MODELS[0].id in message


@pytest.mark.real_model
def test_the_real_file(real_model_path: Path) -> None:
    header = check(real_model_path)
    assert (header.architecture, header.tokenizer_pre, header.n_vocab) == ("qwen2", "qwen2", 151_936)
    assert header.n_bytes_expected == header.n_bytes
    assert header.fim_hint is None  # this file does not name them, and its vocabulary has them all the same
