"""Writes tiny GGUFs with seeded random weights, so that llama.cpp's own behaviour can be property-tested in seconds.

Owns a small real byte-level BPE vocabulary (and a SentencePiece one) and the tensors of four architectures: `llama`, `qwen2`
(plain), `gemma2` (every other layer with a sliding window) and `mamba` (recurrent). Scales are chosen so that logits differ
clearly (standard deviation about 4) and depend on more than the last token. Refuses to be a language model: the text is noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6  # token types of the file format

WORDS = (
    "def", " return", " self", "import", " from", " for", " in", " if", " else", " class", "print", " value", " name",
    " items", "range", " None", " True", " not", "len", " =", " ==", "():", " +", '"""', "//", " const", "function", " let",
    " int", "ing", "tion", "café", " Straße", "日本", "  ", "    ", "        ", "            ", "\n\n", "\t\t", "self.",
    "____", "----", "====",
)  # fmt: skip
FIM_NAMES = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>")
CONTROL_NAMES = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|repo_name|>", "<|file_sep|>")


@dataclass(frozen=True)
class Vocabulary:
    """Tokens as the file spells them, their types and merges. model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)."""

    model: str
    pre: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    eos: str = "<|endoftext|>"

    def id(self, token: str) -> int:
        return self.tokens.index(token)

    def changed(self, token: int) -> Vocabulary:
        """The same vocabulary with one token spelled otherwise: nothing that was computed with the first may be reused."""
        spelled = self.tokens[token] + "~"
        assert spelled not in self.tokens
        return replace(self, tokens=(*self.tokens[:token], spelled, *self.tokens[token + 1 :]))


def byte_characters() -> dict[int, str]:
    """The printable stand-in of each byte in a byte-level BPE file: itself where printable, else a character from 256 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (b for b in range(256) if b not in plain)
    return {b: chr(b) for b in sorted(plain)} | {b: chr(256 + i) for i, b in enumerate(others)}


def bpe_vocabulary(
    *, fim: bool = True, words: Iterable[str] = WORDS, pre: str = "qwen2", markers: Iterable[str] | None = None
) -> Vocabulary:
    """256 bytes, each word with its beginnings as a chain of merges, a user-defined token, and control tokens at the end:
    `markers`, or those of the usual family."""
    spell = byte_characters()
    tokens = [spell[b] for b in range(256)]
    merges: list[str] = []
    for word in words:
        spelled = "".join(spell[b] for b in word.encode())
        for n in range(2, len(spelled) + 1):
            if spelled[:n] not in tokens:
                tokens.append(spelled[:n])
                merges.append(f"{spelled[: n - 1]} {spelled[n - 1]}")
    types = [NORMAL] * len(tokens)
    tokens.append("<tool_call>")
    types.append(USER_DEFINED)
    control = (*CONTROL_NAMES, *(FIM_NAMES if fim else ())) if markers is None else (CONTROL_NAMES[0], *markers)
    return Vocabulary("gpt2", pre, (*tokens, *control), (*types, *[CONTROL] * len(control)), tuple(merges))


def sentencepiece_vocabulary(markers: Iterable[str] = ()) -> Vocabulary:
    """Byte fallback, the printable ASCII characters and words with a leading blank; add_space_prefix keeps its default (on)."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, NORMAL]
    pieces = [chr(c) for c in range(0x21, 0x7F)]
    for word in WORDS:
        spelled = word.replace(" ", "▁")
        pieces += [spelled[:n] for n in range(2, len(spelled) + 1) if word.isprintable()]
    for piece in pieces:
        if piece not in tokens:
            tokens.append(piece)
            types.append(NORMAL)
    tokens += markers
    types += [CONTROL] * (len(tokens) - len(types))
    scores = tuple(-float(i) for i in range(len(tokens)))
    return Vocabulary("llama", "default", tuple(tokens), tuple(types), scores=scores, eos="</s>")


@dataclass(frozen=True)
class _Shape:
    n_embd: int
    n_head: int
    n_ff: int
    n_vocab: int
    head: int


class _Weights:
    """Seeded normal weights; `matrix` keeps the size of a normalized input (times gain)."""

    def __init__(self, writer: gguf.GGUFWriter, seed: int) -> None:
        self._writer, self._rng = writer, np.random.default_rng(seed)

    def put(self, name: str, value: NDArray[np.floating]) -> None:
        self._writer.add_tensor(name, np.ascontiguousarray(value, dtype=np.float32))

    def matrix(self, name: str, n_out: int, n_in: int, gain: float = 1.0) -> None:
        self.put(name, self._rng.standard_normal((n_out, n_in)) * gain / np.sqrt(n_in))

    def rows(self, n: int, width: int, scale: float) -> NDArray[np.floating]:
        return self._rng.standard_normal((n, width)) * scale

    def constant(self, name: str, n: int, value: float = 1.0) -> None:
        self.put(name, np.full(n, value))


def write_tiny(
    path: Path,
    *,
    seed: int = 0,
    arch: str = "llama",
    n_layer: int = 2,
    n_embd: int = 64,
    n_ctx: int = 2048,
    fim: bool = True,
    sliding_window: int = 16,
    vocabulary: Vocabulary | None = None,
    add_bos: bool = False,
    name: str = "",
    head: int = 32,
) -> Path:
    """Write a model of under 2 MB to `path` and return it. `sliding_window` counts for gemma2 only. add_bos: the file says that
    texts begin with the BOS token. head: numbers in a key and in a value."""
    vocab = vocabulary or bpe_vocabulary(fim=fim)
    shape = _Shape(n_embd, n_embd // 32, 2 * n_embd, len(vocab.tokens), head)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(name or f"tiny-{arch}-{seed}")
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(n_embd)
    writer.add_block_count(n_layer)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_vocabulary(writer, vocab, add_bos=add_bos)
    weights = _Weights(writer, seed)
    _add_ends(weights, shape, vocab, tied=arch == "gemma2")
    if arch == "mamba":
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
        _add_mamba(writer, weights, shape, n_layer)
    else:
        writer.add_feed_forward_length(shape.n_ff)
        writer.add_head_count(shape.n_head)
        writer.add_head_count_kv(1)
        writer.add_rope_dimension_count(head)
        if arch == "gemma2" or head != 32:
            writer.add_key_length(head)
            writer.add_value_length(head)
        if arch == "gemma2":
            writer.add_sliding_window(sliding_window)
        _add_transformer(weights, shape, n_layer, arch)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: gguf.GGUFWriter, vocab: Vocabulary, *, add_bos: bool) -> None:
    writer.add_tokenizer_model(vocab.model)
    writer.add_tokenizer_pre(vocab.pre)
    writer.add_token_list(list(vocab.tokens))
    writer.add_token_types(list(vocab.types))
    if vocab.merges:
        writer.add_token_merges(list(vocab.merges))
    if vocab.scores:
        writer.add_token_scores(list(vocab.scores))
    writer.add_eos_token_id(vocab.id(vocab.eos))
    writer.add_bos_token_id(vocab.id(vocab.eos))
    writer.add_add_bos_token(add_bos)
    for key, name in zip(("fim_pre", "fim_mid", "fim_suf", "fim_pad"), FIM_NAMES, strict=True):
        if name in vocab.tokens:
            writer.add_uint32(f"tokenizer.ggml.{key}_token_id", vocab.id(name))


def _add_ends(weights: _Weights, shape: _Shape, vocab: Vocabulary, *, tied: bool) -> None:
    """Embedding and output. Control rows are a little smaller, so that a text seldom ends within a few tokens."""
    size = np.where(np.array(vocab.types) == CONTROL, 0.7, 1.0)[:, None]
    scale = 4 / np.sqrt(shape.n_embd) if tied else 1.0
    weights.put("token_embd.weight", weights.rows(shape.n_vocab, shape.n_embd, scale) * size)
    weights.constant("output_norm.weight", shape.n_embd)
    if not tied:
        weights.put("output.weight", weights.rows(shape.n_vocab, shape.n_embd, 4 / np.sqrt(shape.n_embd)) * size)


def _add_transformer(weights: _Weights, shape: _Shape, n_layer: int, arch: str) -> None:
    n, head, width = shape.n_embd, shape.head, shape.head * shape.n_head
    for i in range(n_layer):
        at = f"blk.{i}."
        weights.constant(at + "attn_norm.weight", n)
        weights.matrix(at + "attn_q.weight", width, n, 1.5)
        weights.matrix(at + "attn_k.weight", head, n, 1.5)
        weights.matrix(at + "attn_v.weight", head, n, 2.0)
        weights.matrix(at + "attn_output.weight", n, width, 2.0)
        if arch == "qwen2":
            for name, size in (("q", width), ("k", head), ("v", head)):
                weights.put(f"{at}attn_{name}.bias", weights.rows(1, size, 0.3)[0])
        if arch == "gemma2":  # tied output: the blocks must outweigh the embedding, or the same token would repeat for ever
            weights.constant(at + "post_attention_norm.weight", n, 8.0)
            weights.constant(at + "post_ffw_norm.weight", n, 8.0)
        weights.constant(at + "ffn_norm.weight", n)
        weights.matrix(at + "ffn_gate.weight", shape.n_ff, n, 1.5)
        weights.matrix(at + "ffn_up.weight", shape.n_ff, n, 1.5)
        weights.matrix(at + "ffn_down.weight", n, shape.n_ff, 1.5)


def _add_mamba(writer: gguf.GGUFWriter, weights: _Weights, shape: _Shape, n_layer: int) -> None:
    n, inner, state, rank, kernel = shape.n_embd, 2 * shape.n_embd, 16, 4, 4
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    for i in range(n_layer):
        at = f"blk.{i}."
        weights.constant(at + "attn_norm.weight", n)
        weights.matrix(at + "ssm_in.weight", 2 * inner, n)
        weights.matrix(at + "ssm_conv1d.weight", inner, kernel, 2.0)
        weights.constant(at + "ssm_conv1d.bias", inner, 0.1)
        weights.matrix(at + "ssm_x.weight", rank + 2 * state, inner, 3.0)
        weights.matrix(at + "ssm_dt.weight", inner, rank)
        weights.constant(at + "ssm_dt.bias", inner, -1.0)
        weights.put(at + "ssm_a", -np.tile(np.arange(1.0, state + 1) / 10, (inner, 1)))  # forgets slowly
        weights.constant(at + "ssm_d", inner, 0.3)
        weights.matrix(at + "ssm_out.weight", n, inner, 2.0)
