"""GGUFs of real shapes with random weights: how long a step takes does not depend on the values.

Owns the shapes and the layout of quantized blocks. Scales are set so that no value overflows; the text of such a model is
noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

_HEAD = 128
_Q8_0, _Q4_K, _F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.F32
_BLOCKS = {_Q8_0: (32, 34), _Q4_K: (256, 144)}  # numbers per block, bytes per block
KINDS = {"Q8_0": _Q8_0, "Q4_K": _Q4_K}
_CHUNK = 1 << 22  # bytes of random blocks that are repeated


@dataclass(frozen=True, slots=True)
class Shape:
    """A qwen2 model: rows of n_embd, heads of head numbers, n_kv of them with keys and values of their own."""

    name: str
    n_layers: int
    n_embd: int
    n_heads: int
    n_kv: int
    n_ff: int
    head: int = _HEAD
    n_vocab: int = 151_936


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("tiny", 2, 256, 4, 2, 512, head=64, n_vocab=1000),
        Shape("0.5B", 24, 896, 14, 2, 4864, head=64),
        Shape("1.5B", 28, 1536, 12, 2, 8960),
        Shape("7B", 28, 3584, 28, 4, 18_944, n_vocab=152_064),
        Shape("32B", 64, 5120, 40, 8, 27_648, n_vocab=152_064),
    )
}


def write(path: Path, shape: Shape, kind: str, *, n_ctx: int = 32_768) -> Path:
    """kind: Q8_0 or Q4_K; a tensor whose rows hold no whole blocks of Q4_K is Q8_0, as publishers do it."""
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layers)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv)
    writer.add_layer_norm_rms_eps(1e-6)
    _add_vocabulary(writer, shape.n_vocab)
    tensors = _tensors(shape)
    for name, dims in tensors:
        _describe(writer, name, dims, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(0)
    blocks = {each: _blocks(rng, each) for each in (_Q8_0, _Q4_K)}
    for _name, dims in tensors:
        writer.write_tensor_data(_data(dims, kind, blocks))
    writer.close()
    return path


def _add_vocabulary(writer: gguf.GGUFWriter, n: int) -> None:
    """Every byte, markers for filling in the middle, and names that no text has."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [b for b in range(256) if b not in plain]
    spell = [chr(b) for b in sorted(plain)] + [chr(256 + i) for i in range(len(others))]
    markers = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"]
    tokens = [*spell, *(f"unused{i}" for i in range(n - 256 - len(markers))), *markers]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (n - len(markers)) + [3] * len(markers))
    writer.add_token_merges([f"{spell[0]} {spell[1]}"])
    writer.add_eos_token_id(n - len(markers))
    writer.add_bos_token_id(n - len(markers))
    writer.add_add_bos_token(False)
    for key, i in (("fim_pre", 1), ("fim_mid", 2), ("fim_suf", 3), ("fim_pad", 4)):
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", n - len(markers) + i)


def _tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Names, and dimensions outermost first."""
    n, q, kv = shape.n_embd, shape.n_heads * shape.head, shape.n_kv * shape.head
    found: list[tuple[str, tuple[int, ...]]] = [("token_embd.weight", (shape.n_vocab, n))]
    for i in range(shape.n_layers):
        at = f"blk.{i}."
        found += [
            (at + "attn_norm.weight", (n,)), (at + "attn_q.weight", (q, n)), (at + "attn_q.bias", (q,)),
            (at + "attn_k.weight", (kv, n)), (at + "attn_k.bias", (kv,)), (at + "attn_v.weight", (kv, n)),
            (at + "attn_v.bias", (kv,)), (at + "attn_output.weight", (n, q)), (at + "ffn_norm.weight", (n,)),
            (at + "ffn_gate.weight", (shape.n_ff, n)), (at + "ffn_up.weight", (shape.n_ff, n)),
            (at + "ffn_down.weight", (n, shape.n_ff)),
        ]  # fmt: skip
    return [*found, ("output_norm.weight", (n,)), ("output.weight", (shape.n_vocab, n))]


def _kind_of(dims: tuple[int, ...], kind: str) -> gguf.GGMLQuantizationType:
    if len(dims) == 1:
        return _F32
    return _Q8_0 if dims[-1] % 256 else KINDS[kind]


def _n_bytes(dims: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> int:
    n = int(np.prod(dims))
    return 4 * n if kind is _F32 else n // _BLOCKS[kind][0] * _BLOCKS[kind][1]


def _describe(writer: gguf.GGUFWriter, name: str, dims: tuple[int, ...], kind: str) -> None:
    real = _kind_of(dims, kind)
    if real is _F32:
        writer.add_tensor_info(name, dims, np.dtype(np.float32), _n_bytes(dims, real))
        return
    per_block, block_bytes = _BLOCKS[real]
    stored = (*dims[:-1], dims[-1] // per_block * block_bytes)
    writer.add_tensor_info(name, stored, np.dtype(np.uint8), _n_bytes(dims, real), raw_dtype=real)


def _blocks(rng: np.random.Generator, kind: gguf.GGMLQuantizationType) -> NDArray[np.uint8]:
    """Random blocks with small scales, in the first two (of Q4_K four) bytes as 16-bit floats."""
    block_bytes = _BLOCKS[kind][1]
    blocks = rng.integers(0, 256, (_CHUNK // block_bytes, block_bytes), dtype=np.uint8)
    scale = np.frombuffer(np.float16(2e-4).tobytes(), dtype=np.uint8)
    blocks[:, 0:2] = scale
    if kind is _Q4_K:
        blocks[:, 2:4] = scale
    return blocks.reshape(-1)


def _data(dims: tuple[int, ...], kind: str, blocks: dict[gguf.GGMLQuantizationType, NDArray[np.uint8]]) -> NDArray[np.generic]:
    real = _kind_of(dims, kind)
    if real is _F32:
        return np.ones(dims, dtype=np.float32)
    return np.resize(blocks[real], _n_bytes(dims, real))
