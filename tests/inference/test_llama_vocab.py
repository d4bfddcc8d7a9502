"""The vocabulary of a GGUF: bytes in, bytes out, and control tokens stay out of text."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.llama.vocab import LlamaVocab, load_vocab
from tests.support import tiny_gguf
from tests.support.layouts import markers_of
from tests.support.tiny_gguf import CONTROL_NAMES, FIM_NAMES, bpe_vocabulary, sentencepiece_vocabulary, write_tiny

quick = settings(max_examples=200, deadline=None)
CODE = (*"ab (){}=+_\n\t\r\x00\x0c'\"é日\u2028▁😀<|>/", " self", "return", "    ", *FIM_NAMES, "</s>", "<unk>", "<0x0A>")
code = st.lists(st.sampled_from(CODE), max_size=40).map("".join)


@pytest.fixture(scope="session")
def spm_vocab(tiny_models: dict[str, Path]) -> LlamaVocab:
    return load_vocab(tiny_models["sentencepiece"])


def check(vocab: LlamaVocab, text: bytes) -> tuple[int, ...]:
    """Encode, and what holds for every text: the bytes come back, and no token of it is a stop token."""
    tokens = vocab.encode(text)
    assert b"".join(vocab.pieces[t] for t in tokens) == text
    assert vocab.stop_tokens.isdisjoint(tokens)
    return tokens


@quick
@given(st.one_of(st.text(), code))
def test_text_comes_back(tiny_vocab: LlamaVocab, spm_vocab: LlamaVocab, text: str) -> None:
    check(tiny_vocab, text.encode("utf-8", "surrogatepass"))
    check(spm_vocab, text.encode("utf-8", "surrogatepass"))


@quick
@given(st.binary())
def test_any_bytes_come_back(tiny_vocab: LlamaVocab, spm_vocab: LlamaVocab, text: bytes) -> None:
    check(tiny_vocab, text)
    check(spm_vocab, text)


@pytest.mark.parametrize("broken", [b"\xf4\x90\x80\x80", b"\xff\xfe", b"caf\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"])
def test_what_ends_the_native_process_is_encoded(tiny_vocab: LlamaVocab, broken: bytes) -> None:
    check(tiny_vocab, b"a " + broken + b" b")


@pytest.mark.parametrize("name", [*CONTROL_NAMES, *FIM_NAMES])
def test_text_of_a_control_token_stays_text(tiny_vocab: LlamaVocab, name: str) -> None:
    assert len(check(tiny_vocab, f"a {name} b".encode())) > 3


@pytest.mark.parametrize("name", ["</s>", "<s>", "<unk>", "<0x0A>"])
def test_merges_never_make_a_control_token(tiny_dir: Path, name: str) -> None:
    plain = sentencepiece_vocabulary()
    steps = [name[a:b] for a in range(len(name)) for b in range(a + 2, len(name) + 1)]
    new = [s for s in dict.fromkeys(steps) if s not in plain.tokens]
    vocabulary = tiny_gguf.Vocabulary(
        plain.model,
        plain.pre,
        (*plain.tokens, *new),
        (*plain.types, *[tiny_gguf.NORMAL] * len(new)),
        scores=tuple(-float(i) for i in range(len(plain.tokens) + len(new))),
        eos=plain.eos,
    )
    path = tiny_dir / "merges.gguf"
    check(load_vocab(write_tiny(path, vocabulary=vocabulary)), f"a{name}b {name}".encode())


def test_sentencepiece_adds_no_blank(spm_vocab: LlamaVocab) -> None:
    texts = (b" return", b"x return", b"self. return", b"  return")
    spelled = [[spm_vocab.pieces[t] for t in spm_vocab.encode(text)] for text in texts]
    assert spelled == [[b" return"], [b"x", b" return"], [b"self.", b" return"], [b" ", b" return"]]


@pytest.mark.parametrize("pre", ["deepseek-coder", "qwen2", "gpt-2"])
@pytest.mark.parametrize("run", ["a", " ", "=", "é"])
def test_long_runs_do_not_overflow_the_stack(tiny_dir: Path, pre: str, run: str) -> None:
    path = tiny_dir / f"{pre}.gguf"
    vocab = load_vocab(path if path.exists() else write_tiny(path, vocabulary=bpe_vocabulary(pre=pre)))
    assert vocab.pre_type == pre
    check(vocab, (run * 120_000).encode())


def test_special_tokens(tiny_vocab: LlamaVocab) -> None:
    written = bpe_vocabulary()
    assert tiny_vocab.n_tokens == len(tiny_vocab.pieces) == len(written.tokens)
    assert markers_of(tiny_vocab.fim) == (written.id(FIM_NAMES[0]), written.id(FIM_NAMES[2]), written.id(FIM_NAMES[1]))
    assert tiny_vocab.stop_tokens == {written.id(name) for name in (*CONTROL_NAMES, *FIM_NAMES)}
    assert all(tiny_vocab.pieces[t] == b"" for t in tiny_vocab.stop_tokens)
    assert tiny_vocab.pieces[written.id("<tool_call>")] == b"<tool_call>"
    assert tiny_vocab.pre_type == "qwen2"


def test_no_fim_tokens(tiny_models: dict[str, Path]) -> None:
    assert load_vocab(tiny_models["no-fim"]).fim is None


def test_bos_only_if_the_file_asks_for_it(tiny_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = tiny_gguf.gguf.GGUFWriter
    monkeypatch.setattr(writer, "add_add_bos_token", lambda self, _: self.add_bool("tokenizer.ggml.add_bos_token", True))
    bos = load_vocab(write_tiny(tiny_dir / "bos.gguf")).bos
    assert bos == (bpe_vocabulary().id("<|endoftext|>"), "<|endoftext|>")


def test_pieces_longer_than_the_first_buffer(tiny_dir: Path) -> None:
    word = "".join(chr(0x4E00 + i) for i in range(100))
    vocab = load_vocab(write_tiny(tiny_dir / "long.gguf", vocabulary=bpe_vocabulary(words=(word,))))
    assert max(map(len, vocab.pieces)) == 300
    check(vocab, word.encode())


def test_a_changed_token_is_seen(tiny_dir: Path, tiny_vocab: LlamaVocab) -> None:
    token = bpe_vocabulary().id("def")
    changed = load_vocab(write_tiny(tiny_dir / "changed.gguf", arch="qwen2", vocabulary=bpe_vocabulary().changed(token)))
    assert [t for t in range(changed.n_tokens) if changed.pieces[t] != tiny_vocab.pieces[t]] == [token]


def test_threads_may_encode_at_once(tiny_vocab: LlamaVocab) -> None:
    texts = [f"def f{i}(self): return {i} * 'é' {'=' * i}".encode() for i in range(40)]
    expected = [tiny_vocab.encode(text) for text in texts]
    wrong: list[bytes] = []

    def run() -> None:
        for _ in range(20):
            wrong.extend(text for text, tokens in zip(texts, expected, strict=True) if tiny_vocab.encode(text) != tokens)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
