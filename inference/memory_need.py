"""What a model needs in memory under given settings, as arithmetic over its shape.

Owns the sums. The parts that llama.cpp reports at load (weights, what it lays out anew for the CPU, the cache, compute buffers,
outputs) are meant to be within a tenth of what it reports; the others (vocabulary, tables, threads, what is kept in RAM) are
upper estimates. Refuses every verdict: whether it fits is `memory_plan`.

The compute buffer is the largest of three moments of a step of n_batch rows: the logits of all rows; attention, whose scores
are written out in full without flash attention; the feed-forward rows. Measured against 0.3.36 of the bindings.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from inference.attention import AUTO, OFF, attention
from inference.models.gguf_sizes import ModelSizes, Tensor

N_BATCH = 512  # most rows of a step
KV_TYPES = ("f16", "q8_0", "q4_0")  # best first
_SEQUENCES_IN_CELLS = 2  # of full length that fit at once; shorter ones share the same cells
_CELL_STEP = 256  # llama.cpp rounds cells up to these

_KV_BLOCKS = {"f16": (1, 2), "q8_0": (32, 34), "q4_0": (32, 18)}  # numbers per block, bytes per block
_F32, _F16 = 4, 2
_MIB = 1 << 20
_KEPT_ROWS = 24  # logits kept for each sequence (`inference.sequence`)
_TOKEN_BYTES = 700  # the vocabulary here and in native code, its pieces and the index of healing, for one token
_BASE_BYTES = 48 * _MIB  # graphs, the work of threads, small things

# types of tensors that the CPU's kernels want in another order, and so are copied: type → multiple of rows
_X86_AVX2 = {2: 8, 12: 8, 20: 8, 39: 8}
_X86_AVX512 = {10: 8}
_ARM = {2: 4, 12: 8, 13: 8, 14: 8, 20: 4, 39: 4, 8: 4}
_AMX = {2: 32, 3: 32, 8: 32, 12: 32, 13: 32, 14: 32, 23: 32}


@dataclass(frozen=True, slots=True)
class Options:
    """What memory depends on beside the model. n_ctx: longest sequence. n_gpu_layers: on devices, the output counts as one."""

    n_ctx: int
    n_sequences: int
    kv_type: str = "f16"
    flash_attention: str = AUTO
    n_gpu_layers: int = 0
    stow_bytes: int = 0
    n_threads: int = 1

    @property
    def is_flash(self) -> bool:
        return attention(self.flash_attention, self.kv_type, on_cpu=not self.n_gpu_layers) != OFF

    @property
    def n_seq_max(self) -> int:
        """One more for the background."""
        return self.n_sequences + 1

    @property
    def n_cells(self) -> int:
        return n_cells(self.n_ctx, self.n_seq_max)


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one kind. is_reported: llama.cpp says it at load, too. is_file: pages of the model's file, which the system may
    drop and read again."""

    name: str
    host: int = 0
    device: int = 0
    is_reported: bool = True
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    parts: tuple[Part, ...]

    @property
    def host(self) -> int:
        return sum(part.host for part in self.parts)

    @property
    def device(self) -> int:
        return sum(part.device for part in self.parts)

    @property
    def host_alone(self) -> int:
        """Without the pages of the file."""
        return sum(part.host for part in self.parts if not part.is_file)

    @property
    def reported(self) -> int:
        """What llama.cpp should report, on all devices together."""
        return sum(part.host + part.device for part in self.parts if part.is_reported)

    def __add__(self, other: Need) -> Need:
        """Of two models at once, name by name."""
        mine = {part.name: part for part in self.parts}
        for part in other.parts:
            before = mine.get(part.name)
            mine[part.name] = part if before is None else replace(
                before, host=before.host + part.host, device=before.device + part.device
            )  # fmt: skip
        return Need(tuple(mine.values()))


def n_cells(n_ctx: int, n_seq_max: int) -> int:
    """Cells that a context is opened with."""
    return n_ctx * min(_SEQUENCES_IN_CELLS, n_seq_max)


def need(sizes: ModelSizes, options: Options, features: Collection[str] = ()) -> Need:
    """features: of the CPU, as llama.cpp names those it was built for."""
    weights, repacked = _weights(sizes, options, features)
    host_cache, device_cache = _cache(sizes, options)
    host_compute, device_compute = _compute(sizes, options)
    kept = options.n_seq_max * _KEPT_ROWS * sizes.n_vocab * _F32
    return Need((
        weights,
        Part("repacked", host=repacked),
        Part("cache", host_cache, device_cache),
        Part("compute", host_compute, device_compute),
        Part("outputs", host=options.n_seq_max * sizes.n_vocab * _F32),
        Part("tables", host=_BASE_BYTES + sizes.n_vocab * _TOKEN_BYTES, is_reported=False),
        Part("logits", host=kept, is_reported=False),
        Part("stowed", host=options.stow_bytes, is_reported=False),
    ))  # fmt: skip


def why_not_quantized(sizes: ModelSizes, kv_type: str) -> str:
    """Half a sentence: what keeps the cache from that type; "" = nothing does."""
    per_block = _KV_BLOCKS[kv_type][0]
    if sizes.has_cache and (sizes.key_length % per_block or sizes.value_length % per_block):
        return (
            f"the model's heads have {sizes.key_length} and {sizes.value_length} numbers, "
            f"and {kv_type} stores {per_block} at a time"
        )
    return ""


def most_layers(sizes: ModelSizes) -> int:
    """That can lie on a device; the output counts as one."""
    return sizes.n_layers + 1


def _on_device(layer: int, sizes: ModelSizes, options: Options) -> bool:
    """The last layers go first, and the output with them."""
    return layer >= most_layers(sizes) - options.n_gpu_layers


def _weights(sizes: ModelSizes, options: Options, features: Collection[str]) -> tuple[Part, int]:
    """Mapped pages of the file and bytes on devices; and bytes of what is laid out anew."""
    rows = _repacked_types(features)
    host = device = repacked = 0
    output = next((tensor for tensor in sizes.tensors if tensor.name == "output.weight"), None)
    for tensor in sizes.tensors:
        is_input = tensor.name.startswith(("token_embd", "per_layer_token_embd", "position_embd", "token_types"))
        layer = tensor.layer if tensor.layer >= 0 else -1 if is_input else sizes.n_layers
        if not is_input and _on_device(layer, sizes, options):
            device += tensor.n_bytes
            continue
        host += tensor.n_bytes
        if not is_input and _is_repacked(tensor, rows):
            repacked += tensor.n_bytes
    if output is None and (embedding := next((t for t in sizes.tensors if t.name == "token_embd.weight"), None)) is not None:
        if _on_device(sizes.n_layers, sizes, options):  # input and output are one tensor in the file, and two in memory
            device += embedding.n_bytes
        elif _is_repacked(embedding, rows):
            repacked += embedding.n_bytes
    return Part("weights", host, device, is_file=True), repacked


def _is_repacked(tensor: Tensor, rows: dict[int, int]) -> bool:
    multiple = rows.get(tensor.kind)
    return multiple is not None and len(tensor.dims) in (2, 3) and tensor.dims[1] > 1 and tensor.dims[1] % multiple == 0


def _repacked_types(features: Collection[str]) -> dict[int, int]:
    if "REPACK" not in features:
        return {}
    found: dict[int, int] = {}
    if "AMX_INT8" in features:
        found |= _AMX
    if "AVX512" in features:
        found |= _X86_AVX512
    if "AVX2" in features:
        found |= _X86_AVX2
    if "DOTPROD" in features or "MATMUL_INT8" in features:
        found |= _ARM
    return found


def _cache(sizes: ModelSizes, options: Options) -> tuple[int, int]:
    """Keys and values of all cells, with sliding windows in full, and recurrent states; on the host, and on devices."""
    cells = -(-options.n_cells // _CELL_STEP) * _CELL_STEP
    key, value = _row_bytes(sizes.key_length, options.kv_type), _row_bytes(sizes.value_length, options.kv_type)
    host = device = 0
    for layer, n_heads in enumerate(sizes.kv_heads):
        n_bytes = cells * n_heads * (key + (0 if sizes.is_mla else value))
        if _on_device(layer, sizes, options):
            device += int(n_bytes)
        else:
            host += int(n_bytes)
    states = sizes.state_bytes * options.n_seq_max
    share = min(1.0, options.n_gpu_layers / max(1, sizes.n_layers))
    return host + states - int(states * share), device + int(states * share)


def _row_bytes(n: int, kv_type: str) -> float:
    per_block, n_bytes = _KV_BLOCKS[kv_type]
    return n * n_bytes / per_block


def _compute(sizes: ModelSizes, options: Options) -> tuple[int, int]:
    rows = min(N_BATCH, options.n_cells)
    cells = -(-options.n_cells // _CELL_STEP) * _CELL_STEP
    row = sizes.n_embd * rows * _F32
    masks = (2 if sizes.window else 1) * cells * rows * (_F16 if options.is_flash else _F32) if sizes.has_cache else 0
    heads = max(sizes.kv_heads, default=0) * (sizes.key_length + sizes.value_length) * rows * _F32
    scores = 0 if options.is_flash or not sizes.has_cache else cells * rows * sizes.n_heads * _F32
    attending = masks + scores + 5 * row + heads
    logits = sizes.n_vocab * rows * _F32 + 2 * row + (0 if options.is_flash and options.kv_type == "f16" else row)
    gate = 2 if sizes.architecture.startswith("gemma") else 3  # where the gate is applied in place
    forward = masks + gate * sizes.n_ff * rows * _F32 + (gate - 1) * row
    state = 6 * sizes.n_inner * rows * _F32 + row if sizes.state_bytes else 0
    most = max(attending, logits, forward, state)
    if not options.n_gpu_layers:
        return most, 0
    inputs = masks + row
    if options.n_gpu_layers > sizes.n_layers:
        return inputs, most
    return max(logits, attending) if options.n_gpu_layers < sizes.n_layers else logits, max(attending, forward)
