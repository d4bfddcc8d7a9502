"""A llama.cpp model and context as the engine's backend.

Owns the context, its KV cells and the meaning of llama.cpp's answers. Every batch is checked here first: what llama.cpp doesn't
refuse ends the process (more rows than n_batch) or is taken silently (an empty sequence that begins in the middle). Refuses to
keep track of tokens; that is the engine's.
"""

from __future__ import annotations

import logging
import platform
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from inference.attention import attention
from inference.backend import Outcome, Row
from inference.config import EngineConfig
from inference.llama import parts, state
from inference.llama.abort import AbortFlag
from inference.llama.batch import Batch
from inference.llama.buffers import Buffer, settled
from inference.llama.devices import native_devices
from inference.llama.load import open_model, start_native
from inference.llama.log import native_log
from inference.llama.offload import look_at_offload
from inference.llama.vocab import LlamaVocab
from inference.measure import usable_cpus
from inference.memory_need import N_BATCH, n_cells
from inference.types import EngineError, NoRoom

_log = logging.getLogger(__name__)
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}  # llama_flash_attn_type
_KV_TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8}  # ggml_type


class LlamaBackend:
    """Fits `inference.backend.Backend`. Made by any thread, then used by one.

    n_ctx: cells in all, twice the longest sequence (`n_ctx_seq`). n_threads: 0 = config's, or one fewer than CPUs. kv_type: as
    set. flash_attention: auto where llama.cpp chooses. buffers: what it says it took. n_swa: of a sliding window; 0: none.
    Raises EngineError if the model can't be loaded or run, NoRoom where less would perhaps do.
    """

    def __init__(
        self,
        config: EngineConfig,
        path: str | Path,
        *,
        on_progress: Callable[[float], None] | None = None,
        n_threads: int = 0,
    ) -> None:
        start_native()
        self._is_closed = False
        self._abort = AbortFlag()
        self._batch = Batch(N_BATCH)
        offload = look_at_offload(config)
        if offload.notice:
            _log.warning("%s", offload.notice)
        devices = native_devices([device.name for device in offload.devices]) if offload.is_chosen else None
        can_offload = bool(llama_cpp.llama_supports_gpu_offload()) and not (offload.is_chosen and not offload.devices)
        n_gpu_layers = config.n_gpu_layers if can_offload else 0
        self.on_cpu, self.kv_type = not n_gpu_layers, config.kv_type
        self.flash_attention = attention(config.flash_attention, self.kv_type, on_cpu=self.on_cpu)
        native_log.clear_buffers()
        self._handle = open_model(Path(path), n_gpu_layers=n_gpu_layers, devices=devices, on_progress=on_progress)
        self._vocab = LlamaVocab(self._handle)
        n_trained = int(llama_cpp.llama_model_n_ctx_train(self._handle.pointer))
        self._n_ctx_seq = min(config.n_ctx, n_trained) if n_trained > 0 else config.n_ctx
        if self._n_ctx_seq < config.n_ctx:
            _log.info("n_ctx %d is more than the model was trained for; %d is used", config.n_ctx, n_trained)
        self._n_seq_max = config.n_sequences + 1  # one more for the background
        self.n_swa = int(llama_cpp.llama_model_n_swa(self._handle.pointer))
        self._context: Any = self._open_context(n_threads or config.n_threads or max(1, usable_cpus() - 1))
        # Not at exit: a daemon thread may be decoding then.
        self._free_context = weakref.finalize(self, llama_cpp.llama_free, self._context)
        self._free_context.atexit = False
        self._memory: Any = llama_cpp.llama_get_memory(self._context)
        self._n_ctx = int(llama_cpp.llama_n_ctx(self._context))
        self._n_rows = 0
        self.buffers: tuple[Buffer, ...] = settled(native_log.buffers())
        self.can_truncate, self.can_stow = self._try_parts()
        # behind a sliding window's end what was in front of it may be gone
        self.can_roll_back = self.can_truncate and not 0 < self.n_swa < self._n_ctx_seq
        # what runs on a device is not interrupted
        self.can_abort = self.can_truncate and self.on_cpu
        if not self.can_stow:
            _log.info("a sequence of this model can't be taken out of its cache: none is kept in RAM")
        if self.can_truncate:
            self._abort.attach(self._context)
        else:
            # What an aborted decode leaves behind could not be removed, so it isn't aborted: end it between chunks.
            _log.info("this model's cache can't drop a part of a sequence: less is reused, and a running chunk is not aborted")

    @property
    def vocab(self) -> LlamaVocab:
        return self._vocab

    @property
    def n_ctx(self) -> int:
        return self._n_ctx

    @property
    def n_ctx_seq(self) -> int:
        """Longest sequence in tokens."""
        return self._n_ctx_seq

    @property
    def n_batch(self) -> int:
        return N_BATCH

    @property
    def n_seq_max(self) -> int:
        return self._n_seq_max

    @property
    def rope(self) -> str:
        """How positions are turned, as far as the model's file doesn't say it."""
        return f"{llama_cpp.llama_model_rope_type(self._handle.pointer)} {self._rope}"

    @property
    def build(self) -> str:
        """Names what the native code was built for: measurements of another build don't count."""
        features = llama_cpp.llama_print_system_info().decode("utf-8", "replace").strip()
        attention = [word for word, usual in ((self.kv_type, "f16"), (self.flash_attention, "auto")) if word != usual]
        return " ".join([llama_cpp.__version__, platform.machine(), features, *attention])

    @property
    def n_threads(self) -> int:
        return int(llama_cpp.llama_n_threads(self._context))

    def set_threads(self, n: int) -> None:
        if not self._is_closed:
            llama_cpp.llama_set_n_threads(self._context, n, n)

    def decode(self, rows: Sequence[Row]) -> Outcome:
        """See the Protocol. A model without partial removal is never ABORTED; after `close` everything is FATAL."""
        self._n_rows = 0
        if self._is_closed:
            return Outcome.FATAL
        lengths = self._lengths_if_sound(rows)
        if lengths is None:
            return Outcome.REFUSED
        if self.can_truncate and self._abort.is_wanted():
            return Outcome.ABORTED
        with self._abort.watching():
            code = llama_cpp.llama_decode(self._context, self._batch.fill(rows))
        match code:
            case 0:
                # a device still works then: the next step may not be queued behind it, nor may this one's time seem short
                llama_cpp.llama_synchronize(self._context)
                self._n_rows = len(rows)
                return Outcome.OK
            case 1:
                outcome = Outcome.NO_ROOM
            case 2:
                outcome = Outcome.ABORTED
            case -1:
                outcome = Outcome.REFUSED
            case _:
                _log.error("llama_decode answered %d; what the context held is lost", code)
                return Outcome.FATAL
        return outcome if self._restore(lengths) else Outcome.FATAL

    def logits(self, i: int) -> NDArray[np.float32]:
        """Read-only view, shape (n_tokens,). Raises ValueError for a row that wanted none."""
        if not 0 <= i < self._n_rows:
            raise ValueError(f"row {i} is not in the last batch of {self._n_rows}")
        pointer = llama_cpp.llama_get_logits_ith(self._context, i)
        if not pointer:
            raise ValueError(f"row {i} of the last batch wanted no logits")
        view: NDArray[np.float32] = np.ctypeslib.as_array(pointer, shape=(self._vocab.n_tokens,))
        view.flags.writeable = False
        return view

    def seq_length(self, seq: int) -> int:
        """Positions in the cache: last one + 1, 0 if the sequence is empty."""
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, seq)) + 1

    def truncate(self, seq: int, n: int) -> bool:
        if n <= 0:
            llama_cpp.llama_memory_seq_rm(self._memory, seq, -1, -1)  # a whole sequence can always go
            if not any(self.seq_length(other) for other in range(self._n_seq_max)):
                llama_cpp.llama_memory_clear(self._memory, False)  # what comes next begins with the first cell
            return True
        if n >= self.seq_length(seq):
            return True
        return self._can_continue_at(seq, n) and bool(llama_cpp.llama_memory_seq_rm(self._memory, seq, n, -1))

    def copy(self, src: int, dst: int, n: int) -> bool:
        length = self.seq_length(src)
        if src == dst or n > length or self.seq_length(dst):
            return False
        if n <= 0:
            return True
        if n < length and not self._can_continue_at(src, n):
            return False
        llama_cpp.llama_memory_seq_cp(self._memory, src, dst, -1, -1 if n == length else n)
        return True

    def save(self, seq: int) -> bytes | None:
        """See the Protocol. About 2 ms for 1,500 tokens of the 0.5B."""
        if self._is_closed or not self.can_stow or not self.seq_length(seq):
            return None
        return state.save(self._context, seq)

    def restore(self, seq: int, saved: bytes, n: int) -> bool:
        """See the Protocol. Anything that isn't exactly n positions from the first on is refused."""
        if self._is_closed or not self.can_stow or n <= 0 or not 0 <= seq < self._n_seq_max or self.seq_length(seq):
            return False
        if state.restore(self._context, seq, saved) and self.seq_length(seq) == n:
            return True
        self.truncate(seq, 0)
        return False

    def set_abort(self, check: Callable[[], bool]) -> None:
        """`check` is also called from a thread of the backend's own while a decode runs; it must not touch the backend."""
        self._abort.set_check(check)

    def close(self) -> None:
        """Free the context; the model follows when neither the backend nor its vocabulary is in use. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._free_context()
        self._abort.close()
        self._context = self._memory = None
        self._n_rows = 0

    def _open_context(self, n_threads: int) -> Any:
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = n_cells(self._n_ctx_seq, self._n_seq_max)
        params.n_batch = params.n_ubatch = N_BATCH
        params.n_seq_max = self._n_seq_max
        params.n_threads = params.n_threads_batch = n_threads
        params.flash_attn_type = _FLASH_ATTENTION[self.flash_attention]
        params.type_k = params.type_v = _KV_TYPES[self.kv_type]
        params.kv_unified = True  # a part of a sequence can only be shared within one buffer
        params.no_perf = True
        names = ("scaling_type", "freq_base", "freq_scale")
        self._rope = " ".join(f"{getattr(params, f'rope_{name}'):g}" for name in names)
        native_log.clear_errors()
        context = llama_cpp.llama_init_from_model(self._handle.pointer, params)
        if not context:
            said = "; ".join(native_log.errors()[-2:]) or "no reason given"
            if "cache type" in said or "V cache" in said:  # heads that don't come in whole blocks, or no flash attention
                raise EngineError(f"This model can't keep its cache as {self.kv_type}; set kv_type = f16 (llama.cpp: {said}).")
            raise NoRoom(
                f"There is no room for a context of {params.n_ctx} tokens and {self._n_seq_max} sequences; "
                f"lower n_ctx or n_sequences, or choose a smaller model (llama.cpp: {said})."
            )
        return context

    def _try_parts(self) -> tuple[bool, bool]:
        """Whether a part of a sequence can be removed, and whether one can be stowed. Also touches all weights once."""
        self.can_truncate = self.can_stow = True  # nothing else stands in the way
        outcome = self.decode([Row(0, 0, 0), Row(0, 1, 0, wants_logits=True)])
        if outcome is not Outcome.OK:
            said = "; ".join(native_log.errors()[-2:]) or outcome.value
            self.close()
            raise NoRoom(f"The model was loaded but can't be run; lower n_gpu_layers or n_ctx (llama.cpp: {said}).")
        can_truncate = parts.can_truncate(self)
        # Of a sliding window only what lies within is saved: what comes back could not be cut.
        is_whole = can_truncate and not 0 < self.n_swa < self._n_ctx_seq
        can_stow = is_whole and parts.can_stow(self)
        llama_cpp.llama_memory_clear(self._memory, False)
        return can_truncate, can_stow

    def _can_continue_at(self, seq: int, n: int) -> bool:
        """Whether positions before n are all that a token at n attends to. A sliding window may have lost some of them."""
        if not self.can_truncate:
            return False
        first = int(llama_cpp.llama_memory_seq_pos_min(self._memory, seq))
        return first <= max(0, n - self.n_swa) if self.n_swa else first <= 0

    def _lengths_if_sound(self, rows: Sequence[Row]) -> dict[int, int] | None:
        """Lengths before this batch of the sequences in it; None if the batch is malformed."""
        if not 0 < len(rows) <= N_BATCH:
            return None
        lengths: dict[int, int] = {}
        ends: dict[int, int] = {}
        n_tokens = self._vocab.n_tokens
        for row in rows:
            if not (0 <= row.seq < self._n_seq_max and 0 <= row.token < n_tokens):
                return None
            if row.seq not in ends:
                ends[row.seq] = lengths[row.seq] = self.seq_length(row.seq)
            if row.pos != ends[row.seq]:
                return None
            ends[row.seq] += 1
        return lengths

    def _restore(self, lengths: dict[int, int]) -> bool:
        """Remove what a decode that failed has kept."""
        return all(self.truncate(seq, n) and self.seq_length(seq) == n for seq, n in lengths.items())
