"""What a GGUF's header says of the memory that its model needs: the shape of its layers and the size of each tensor.

Owns the names under which architectures give their shape. Refuses sums: those are in `inference.memory_need`. Where an
architecture gives something under a name that is not known here, the larger of what it may be is taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference.models.gguf import check
from inference.models.gguf_cursor import SCALARS, Cursor, Cut, Damaged
from inference.models.gguf_values import ARRAY, TENSOR_BLOCKS, Value, read_key, read_value, skip_array, skip_items, skip_value
from inference.types import EngineError

_MOST_ITEMS = 4096  # of an array that is kept: one entry a layer
_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_STATE = ("ssm_", "time_mix", "shortconv")  # what only layers with a recurrent state have
_KEYS = ("attn_k.", "attn_kv", "attn_v.")
_F32_BYTES = 4

Values = Mapping[str, Value | tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Tensor:
    """layer: its block, -1 = of none. dims: innermost first. kind: the number of its type in the file format."""

    name: str
    layer: int
    dims: tuple[int, ...]
    kind: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """The shape of a model. kv_heads: per layer, 0 = it keeps no keys and values. key_length, value_length: numbers a head.

    is_mla: a layer keeps one compressed row and no values. state_bytes: of all recurrent states of one sequence. window: of a
    sliding window, 0 = none. n_ff: widest feed-forward row that one token goes through. n_inner: the same of a recurrent layer.
    """

    name: str
    architecture: str
    n_layers: int
    n_embd: int
    n_heads: int
    kv_heads: tuple[int, ...]
    key_length: int
    value_length: int
    is_mla: bool
    state_bytes: int
    window: int
    n_ff: int
    n_inner: int
    n_vocab: int
    n_ctx_train: int
    tensors: tuple[Tensor, ...]

    @property
    def weight_bytes(self) -> int:
        return sum(tensor.n_bytes for tensor in self.tensors)

    @property
    def has_cache(self) -> bool:
        return any(self.kv_heads)


def read_sizes(path: Path) -> ModelSizes:
    """The shape of the model in the file at `path`. EngineError: it can't be read, or holds no model; see `gguf.check`."""
    header = check(path)
    try:
        with open(path, "rb") as file:
            cursor = Cursor(file, header.n_bytes)
            cursor.skip(8)  # magic and version, which were checked
            n_tensors, n_values = cursor.u64(), cursor.u64()
            values = _values(cursor, n_values)
            tensors = tuple(_tensor(cursor) for _ in range(n_tensors))
    except (Cut, Damaged, OSError):
        raise EngineError(f"{path} has changed while it was read; try again.") from None
    return _sizes(path.stem, header.architecture, values, tensors, header.n_vocab)


def _values(cursor: Cursor, n: int) -> dict[str, Value | tuple[int, ...]]:
    values: dict[str, Value | tuple[int, ...]] = {}
    for _ in range(n):
        key = read_key(cursor)
        kind = cursor.u32()
        if key.startswith("tokenizer."):
            if kind == ARRAY:
                skip_array(cursor)
            else:
                skip_value(cursor, kind)
        elif kind == ARRAY:
            values[key] = _array(cursor)
        else:
            values[key] = read_value(cursor, kind)
    return values


def _array(cursor: Cursor) -> tuple[int, ...]:
    """Whole numbers, one a layer; () for anything else."""
    kind, count = cursor.u32(), cursor.u64()
    if kind in SCALARS and count <= _MOST_ITEMS:
        items = [cursor.scalar(SCALARS[kind]) for _ in range(count)]
        return tuple(items) if all(isinstance(item, int) for item in items) else ()  # type: ignore[arg-type]
    skip_items(cursor, kind, count)
    return ()


def _tensor(cursor: Cursor) -> Tensor:
    name = read_key(cursor)
    dims = tuple(cursor.u64() for _ in range(cursor.u32()))
    kind, _offset = cursor.u32(), cursor.u64()
    per_block, block_bytes = TENSOR_BLOCKS.get(kind, (1, 0))
    found = _BLOCK.match(name)
    n_bytes = -(-math.prod(dims) // per_block) * block_bytes
    return Tensor(name, int(found.group(1)) if found else -1, dims, kind, n_bytes)


def _sizes(name: str, architecture: str, values: Values, tensors: tuple[Tensor, ...], n_tokens: int) -> ModelSizes:
    def number(key: str, default: int = 0) -> int:
        """The largest where there is one for each layer."""
        value = values.get(f"{architecture}.{key}", default)
        if isinstance(value, tuple):
            return max(value, default=default)
        return value if isinstance(value, int) else default

    n_layers, n_embd, n_heads = number("block_count"), number("embedding_length"), number("attention.head_count")
    per_head = n_embd // n_heads if n_heads else 0
    n_used = number("expert_used_count")
    expert_ff = number("expert_feed_forward_length") or (number("feed_forward_length") if n_used else 0)
    return ModelSizes(
        name=name,
        architecture=architecture,
        n_layers=n_layers,
        n_embd=n_embd,
        n_heads=n_heads,
        kv_heads=_kv_heads(values.get(f"{architecture}.attention.head_count_kv"), n_layers, n_heads, tensors),
        key_length=number("attention.key_length", per_head),
        value_length=number("attention.value_length", per_head),
        is_mla=bool(number("attention.key_length_mla")),
        state_bytes=_state_bytes(number, n_embd) * len(_layers_with(tensors, _STATE)),
        window=number("attention.sliding_window"),
        n_ff=max(number("feed_forward_length"), n_used * expert_ff),
        n_inner=number("ssm.inner_size"),
        n_vocab=n_tokens or number("vocab_size"),
        n_ctx_train=number("context_length"),
        tensors=tensors,
    )


def _kv_heads(given: object, n_layers: int, n_heads: int, tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    if isinstance(given, tuple) and len(given) == n_layers:
        return tuple(given)
    n = given if isinstance(given, int) and given > 0 else n_heads
    states = _layers_with(tensors, _STATE)
    keeps = _layers_with(tensors, _KEYS) | (_layers_with(tensors, ("attn_qkv.",)) - states)
    return tuple(n if layer in keeps else 0 for layer in range(n_layers))


def _layers_with(tensors: tuple[Tensor, ...], beginnings: tuple[str, ...]) -> frozenset[int]:
    return frozenset(tensor.layer for tensor in tensors if tensor.layer >= 0 and _within(tensor.name).startswith(beginnings))


def _within(name: str) -> str:
    return name.split(".", 2)[-1]


def _state_bytes(number: Callable[..., int], n_embd: int) -> int:
    """Of one layer and sequence, in 32 bits: the last inputs of its convolution, and its state."""
    if head := number("wkv.head_size"):
        return n_embd * (number("token_shift_count", 2) + head) * _F32_BYTES
    if length := number("shortconv.l_cache"):
        return n_embd * (length - 1) * _F32_BYTES
    inner, state = number("ssm.inner_size"), number("ssm.state_size")
    kernel, groups = number("ssm.conv_kernel"), number("ssm.group_count")
    return (max(0, kernel - 1) * (inner + 2 * groups * state) + state * inner) * _F32_BYTES
