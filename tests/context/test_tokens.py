"""Token table: equal to the tokenizer's of the whole text, whatever is remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from context.borders import border_rule
from context.prompt_form import to_prompt
from context.text import Text
from context.tokens import TokenTable
from context.types import Tokenizer
from tests.context.conftest import WordTokenizer, new_table

if TYPE_CHECKING:
    from inference.llama.vocab import LlamaVocab

FAMILIES = ["deepseek-coder", "starcoder", "refact", "llama-bpe", "llama-spm"]

# Everything that some Unicode table calls whitespace, some that only look like it, and what newlines may stick to.
SPACES = ["\t", "\x0b", "\x0c", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000"]
ODD = ["\ufeff", "\u200b", "\u180e", "\u2060", "\x00", "\x7f", "\u0301", "\ue000", "’", "，", "。"]
BREAKS = ["\n", "\n", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", "\n    "]
WORDS = ["a", "foo", "é", "漢", "ひ", "カ", "한", "😋", "1", "٣", "ᚠ", ";", "{", "}\n", "'s", '"', " x"]
MARKERS = ["<|fim_middle|>", "<tool_call>"]

texts = st.lists(st.sampled_from(SPACES + ODD + BREAKS * 4 + WORDS + MARKERS), max_size=16).map(lambda p: "".join(p).encode())
free_texts = st.text(max_size=30).map(str.encode)
lines = st.sampled_from(
    ["def f(a):", "    return 'é'", "", "\t}", "x = 123456;", "漢字", "// ▁ \r", "<unk> <s>", "  \xa0y"]
).map(str.encode)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(texts, free_texts), min_size=1, max_size=3))
def test_equals_the_tokenizer(parts: list[bytes]) -> None:
    tokenizer, table = WordTokenizer(), new_table()
    for text in parts:
        assert table.encode(text) == tokenizer.encode(text)
        assert b"".join(table.pieces(text)) == text


@settings(max_examples=150, deadline=None)
@given(text=texts)
def test_equals_the_real_vocabulary(real_tokenizer: Tokenizer, text: bytes) -> None:
    assert TokenTable(real_tokenizer, "qwen2").encode(text) == real_tokenizer.encode(text)


@settings(max_examples=200, deadline=None)
@given(text=free_texts, line=texts)
def test_equals_the_real_vocabulary_on_any_text(real_tokenizer: Tokenizer, text: bytes, line: bytes) -> None:
    whole = text + b"\n" + line + b"\r\n" + text
    assert TokenTable(real_tokenizer, "qwen2").encode(whole) == real_tokenizer.encode(whole)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_cut_and_equals_its_vocabulary(name: str, packed_vocab: Callable[[str], LlamaVocab]) -> None:
    vocab = packed_vocab(name)
    assert border_rule(vocab.pre_type, vocab.pieces) is not None
    table = TokenTable(vocab, vocab.pre_type, vocab.pieces)
    # StarCoder has no token for some bytes of planes without characters: from such a one on, a text is spelled byte by byte
    bytes_known = {piece[0] for piece in vocab.pieces if len(piece) == 1}

    @settings(max_examples=30, deadline=None)
    @given(text=texts, free=free_texts, document=st.lists(st.one_of(lines, free_texts), max_size=6))
    def check(text: bytes, free: bytes, document: list[bytes]) -> None:
        assume(bytes_known.issuperset(free + b"".join(document)))
        for whole in (text, text + b"\n" + free + b"\n" + text, b"\n".join(document), b"".join(document)):
            assert table.encode(whole) == vocab.encode(whole)
            assert b"".join(table.pieces(whole)) == whole

    check()


@pytest.mark.parametrize("name", FAMILIES)
def test_ordinary_code_is_cut_line_by_line(name: str, packed_vocab: Callable[[str], LlamaVocab]) -> None:
    vocab = packed_vocab(name)
    table = TokenTable(vocab, vocab.pre_type, vocab.pieces)
    lines = [f"    value_{i} = [{i}, 'é', f({i})]  # 漢字 {i};\n" for i in range(40)]
    code = "".join(lines).encode()
    assert len(list(table.pieces(code))) >= len(lines)
    assert table.encode(code) == vocab.encode(code)
    n = table.n_encoded_bytes
    lines[20] = "    changed = 1\n"
    code = "".join(lines).encode()
    assert table.encode(code) == vocab.encode(code)
    assert table.n_encoded_bytes - n <= len(lines[20]) + 1


@pytest.mark.parametrize("run", [b"\n", b" ", b"\n ", b"a", b"=", b"\t\n"])
@pytest.mark.parametrize("name", ["deepseek-coder", "starcoder"])
def test_long_runs(name: str, run: bytes, packed_vocab: Callable[[str], LlamaVocab]) -> None:
    """Some vocabularies tokenize very long runs in parts, counted from where the run begins."""
    vocab = packed_vocab(name)
    table = TokenTable(vocab, vocab.pre_type, vocab.pieces)
    for text in (b"x;" + run * 2040 + b" " * 30 + b"y\n", b"a\n" + run * 3000 + b"\n\n    b\n"):
        assert table.encode(text) == vocab.encode(text)


def test_a_token_that_may_lie_across_a_border_forbids_it() -> None:
    assert border_rule("qwen2", [b"a", b"\n", b";\n\n", b"  \n"]) is not None
    assert border_rule("qwen2", [b"\n    "]) is None
    assert border_rule("qwen2", [b"\nfoo"]) is None
    assert border_rule("starcoder", [b"\n\n    ", b" \n"]) is not None
    assert border_rule("starcoder", [b";\n"]) is None
    assert border_rule("default") is None, "it may be SentencePiece, whose pieces must be known"
    assert border_rule("default", [b"a", b"\n\n", b";\r"]) is not None
    assert border_rule("default", [b"a\n"]) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(texts, st.sampled_from([b"\r\n", b"x = 1\r\n", b"y" * 3000, b"\n" * 700])), max_size=8), st.booleans()
)
def test_a_document_has_the_tokens_of_its_prompt_form(parts: list[bytes], marked: bool) -> None:
    data = b"\xef\xbb\xbf" * marked + b"".join(parts)
    table, text = new_table(), Text.of(data)
    assert table.encode_document(text) == WordTokenizer().encode(to_prompt(data, True))
    with mock.patch("context.tokens._BLOCK", 64):
        assert list(table.document_pieces(text)) == list(table.pieces(to_prompt(data, True)))


def test_every_unicode_space_at_a_line_start(real_tokenizer: Tokenizer) -> None:
    table = TokenTable(real_tokenizer, "qwen2")
    for code in [*range(0x3100), *range(0xD7A0, 0xD800), *range(0xE000, 0xE002), *range(0xFE00, 0x10010), 0x1F600, 0xE0001]:
        for text in (f"a;\n{chr(code)}\nb", f"a\n {chr(code)}b\n"):
            assert table.encode(text.encode()) == real_tokenizer.encode(text.encode()), hex(code)


def test_marker_like_text_is_no_control_token(real_tokenizer: Tokenizer) -> None:
    tokens = TokenTable(real_tokenizer, "qwen2").encode(b"x = '<|fim_middle|><|endoftext|>'\n")
    assert len(tokens) > 10


def test_lines_are_remembered() -> None:
    table = new_table()
    lines = [f"value_{i} = {i}\n" for i in range(100)]
    table.encode("".join(lines).encode())
    n = table.n_encoded_bytes
    lines[50] = "value_50 = 5 + 1\n"
    table.encode("".join(lines).encode())
    assert table.n_encoded_bytes - n == len(lines[50])
    table.encode("".join(lines[20:]).encode())
    assert table.n_encoded_bytes - n == len(lines[50])


def test_blank_lines_belong_to_the_line_before() -> None:
    assert list(new_table().pieces(b"a\n\n  \nb\n\tc\n")) == [b"a\n\n  \n", b"b\n", b"\tc\n"]


def test_unknown_pre_tokenizer_is_not_cut() -> None:
    table = new_table("some-other")
    text = b"a\nb\nc\n"
    assert list(table.pieces(text)) == [text]
    assert table.encode(text) == WordTokenizer().encode(text)
    n = table.n_encoded_bytes
    table.encode(text)
    assert table.n_encoded_bytes == n


def test_what_is_kept_is_bounded() -> None:
    table = TokenTable(WordTokenizer(), "qwen2", max_bytes=20_000)
    for i in range(2000):
        table.encode(f"name_{i} = {i}\n".encode())
        assert table.n_kept_bytes <= 20_000
    n = table.n_encoded_bytes
    table.encode(b"name_1999 = 1999\n")
    assert table.n_encoded_bytes == n
    table.encode(b"name_0 = 0\n")
    assert table.n_encoded_bytes > n


def test_what_is_asked_for_stays() -> None:
    table = TokenTable(WordTokenizer(), "qwen2", max_bytes=20_000)
    table.encode(b"wanted\n")
    n_other = 0
    for i in range(1000):
        line = f"other {i}\n".encode()
        table.encode(line + b"wanted\n")
        n_other += len(line)
    assert table.n_encoded_bytes == len(b"wanted\n") + n_other


def test_a_piece_too_big_to_keep() -> None:
    table = TokenTable(WordTokenizer(), "qwen2", max_bytes=1000)
    text = b"x" * 5000
    assert table.encode(text) == WordTokenizer().encode(text)
    assert table.n_kept_bytes == 0
