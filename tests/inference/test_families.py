"""Families: recognized by their vocabularies, tested at load, refused with a reason; user text never becomes a marker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.families import FAMILIES, is_marker, recognize
from inference.llama.fim import GENERIC, marker_ids, read_fim
from inference.llama.vocab import load_vocab
from inference.types import FimTokens
from tests.support.family_vocab import REAL, ScriptVocab, family_vocab, write_family
from tests.support.tiny_gguf import CONTROL_NAMES, bpe_vocabulary, write_tiny

NAMES = [family.name for family in FAMILIES]


@pytest.fixture(scope="session")
def vocab_of(tiny_dir: Path) -> dict[str, ScriptVocab]:
    return {name: family_vocab(name, tiny_dir) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_a_family_is_recognized_by_its_vocabulary(vocab_of: dict[str, ScriptVocab], name: str) -> None:
    vocab = vocab_of[name]
    assert vocab.fim is not None and vocab.fim.family == name, vocab.why_no_fim
    assert marker_ids(vocab.fim) <= vocab.stop_tokens
    family = next(each for each in FAMILIES if each.name == name)
    assert {vocab.id_of(marker) for marker in family.markers} == marker_ids(vocab.fim)
    assert bool(vocab.fim.psm) == bool(family.psm) and bool(vocab.fim.spm) == bool(family.spm)
    assert (vocab.bos is not None) == (name in {"codellama", "codestral", "codegemma", "deepseek-coder"})


def test_ids_of_real_vocabularies(vocab_of: dict[str, ScriptVocab]) -> None:
    """As the publishers' tokenizers number them."""
    wanted = {"deepseek-coder": (32016, 32015, 32017), "starcoder2": (1, 3, 2), "starcoder": (1, 3, 2)}
    assert set(wanted) == set(REAL)
    for name, ids in wanted.items():
        fim = vocab_of[name].fim
        assert fim is not None and fim.psm is not None
        assert tuple(entry[0] for entry in fim.psm if not isinstance(entry, str)) == ids


TEXTS = st.lists(
    st.one_of(
        st.sampled_from([m for family in FAMILIES for m in (*family.markers, *family.needs)]),
        st.sampled_from(["<|endoftext|>", "<EOT>", "▁<EOT>", "</s>", "<s>", "<PRE>", "▁", " ", "\n", "<", "[SUFFIX", "｜>"]),
        st.text(max_size=4),
    ),
    max_size=6,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, name=st.sampled_from(NAMES))
def test_user_text_never_becomes_a_control_token(vocab_of: dict[str, ScriptVocab], name: str, text: str) -> None:
    vocab = vocab_of[name]
    data = text.encode()
    tokens = vocab.encode(data)
    assert vocab.stop_tokens.isdisjoint(tokens)
    if all(bytes([byte]) in vocab.pieces for byte in data if byte >= 0xF0):  # some lack a byte
        assert b"".join(vocab.pieces[token] for token in tokens) == data


@pytest.mark.parametrize("name", NAMES)
def test_a_marker_that_is_missing_is_a_refusal_with_a_reason(tiny_dir: Path, name: str) -> None:
    family = next(each for each in FAMILIES if each.name == name)
    orders = family.psm or family.spm
    gone = [entry for entry in orders if is_marker(entry)][1]
    vocab = load_vocab(write_family(name, tiny_dir, without=gone))
    assert vocab.fim is None
    assert "of the markers it has only" in vocab.why_no_fim and gone not in vocab.why_no_fim.split(" only ")[1].split(", ")


def test_a_model_without_markers_says_so(tiny_models: dict[str, Path]) -> None:
    assert load_vocab(tiny_models["no-fim"]).why_no_fim == "it has no fill-in-the-middle tokens"


NUMBERED = {"<|fim_prefix|>": 5, "<|fim_middle|>": 6, "<|fim_suffix|>": 7, "<|repo_name|>": 8, "<|file_sep|>": 9}


def test_a_marker_of_several_tokens_is_refused() -> None:
    """The self-test: the name is in the table, but text with it is not tokenized to it."""
    split = read_fim(NUMBERED, (5, 7, 6), "m", lambda name: [1, 2, 3] if name == "<|fim_suffix|>" else [NUMBERED[name]])
    assert split == "its marker <|fim_suffix|> is 3 tokens of its vocabulary instead of the one it should be"
    other = read_fim(NUMBERED, (5, 7, 6), "m", lambda name: [4])
    assert isinstance(other, str)
    whole = read_fim(NUMBERED, (5, 7, 6), "m", lambda name: [NUMBERED[name]])
    assert isinstance(whole, FimTokens) and whole.family == "qwen2.5-coder"


def test_metadata_that_contradict_the_vocabulary_are_refused() -> None:
    said = read_fim(NUMBERED, (5, 6, 7), "m", lambda name: [NUMBERED[name]])
    assert said == "its metadata name the tokens (5, 6, 7) as markers, but its vocabulary has them at (5, 7, 6)"


def test_an_unknown_family_goes_by_its_metadata() -> None:
    names = {"<|code_prefix|>": 3, "<|code_suffix|>": 4, "<|code_middle|>": 5}
    fim = read_fim(names, (3, 4, 5), "m", lambda name: [names[name]])
    assert isinstance(fim, FimTokens) and fim.family == GENERIC and fim.header == () and fim.spm is None
    assert fim.psm == ("header", (3, "<|code_prefix|>"), "prefix", (4, "<|code_suffix|>"), "suffix", (5, "<|code_middle|>"))
    assert isinstance(read_fim(names, (3, 3, 5), "m", lambda name: []), str)


def test_names_tell_apart_what_vocabularies_do_not() -> None:
    plain = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<filename>", "<reponame>"]
    found = {name: recognize(plain, name) for name in ("Mellum 4b Base", "granite-8b-code", "starcoderbase")}
    assert {k: v and v.name for k, v in found.items()} == {
        "Mellum 4b Base": "mellum", "granite-8b-code": "granite", "starcoderbase": "starcoder"
    }  # fmt: skip
    assert recognize([*CONTROL_NAMES], "granite") is None


def test_every_family_says_where_its_format_is_documented() -> None:
    assert all(family.source and (family.psm or family.spm) for family in FAMILIES)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_a_user_defined_marker_is_a_marker(tiny_dir: Path) -> None:
    """Some conversions mark them so; then text with its name must still be text."""
    vocabulary = bpe_vocabulary()
    types = [4 if "fim_" in token else kind for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)]
    vocab = load_vocab(write_tiny(tiny_dir / "user-defined.gguf", vocabulary=replace(vocabulary, types=tuple(types))))
    assert vocab.fim is not None
    assert vocab.stop_tokens.isdisjoint(vocab.encode(b"a <|fim_middle|> b <|fim_pad|>"))
