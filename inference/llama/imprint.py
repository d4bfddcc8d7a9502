"""What the bytes of a backend's states depend on, gathered from the library, the settings and the model; and the saved prompts
that fit.

Owns no file. A library of another build is told by its bytes: its version says little of how it was made.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import llama_cpp

from inference.config import EngineConfig
from inference.llama.devices import DeviceKind, look_at_devices
from inference.llama.model import LlamaBackend
from inference.models.identity import identify
from inference.prompt_cache.archive import Archive
from inference.prompt_cache.fingerprint import Fingerprint
from inference.prompt_cache.place import directory_in
from inference.prompt_cache.store import Store

_LARGE = 64 << 20  # bytes of a library, such as those with kernels for a device; of larger ones the size must do


def open_archive(config: EngineConfig, backend: LlamaBackend, path: Path, cache_dir: Path, digest: str = "") -> Archive | None:
    """Started; None: it is switched off, or states of this model can't be taken out. digest: of the model, if it is known."""
    if not (config.prompt_cache and config.prompt_cache_bytes and backend.can_stow):
        return None
    fingerprint = imprint(config, backend, digest or identify(path).digest)
    archive = Archive(Store(directory_in(cache_dir), config.prompt_cache_bytes), fingerprint.digest)
    archive.start()
    return archive


def imprint(config: EngineConfig, backend: LlamaBackend, digest: str) -> Fingerprint:
    """digest: of the model's file."""
    return Fingerprint(
        model=digest,
        n_ctx=backend.n_ctx,
        n_ctx_seq=backend.n_ctx_seq,
        n_seq_max=backend.n_seq_max,
        is_unified=True,
        kv_type_k=backend.kv_type,
        kv_type_v=backend.kv_type,
        flash_attention=backend.flash_attention,
        rope=backend.rope,
        n_swa=backend.n_swa,
        device=_devices(config, backend),
        build=f"{backend.build} {library_digest()}",
        state_version=int(llama_cpp.LLAMA_STATE_SEQ_VERSION),
        n_threads=backend.n_threads,
        n_vocab=backend.vocab.n_tokens,
    )


@cache
def library_digest() -> str:
    """Of the native libraries."""
    libraries = {file.resolve() for file in (Path(llama_cpp.__file__).parent / "lib").glob("*") if "mtmd" not in file.name}
    digest = hashlib.blake2b(digest_size=16)
    contents: set[bytes] = set()  # the same file has several names, and wheels know no links
    for library in sorted(file for file in libraries if file.is_file()):
        size = library.stat().st_size
        contents.add(hashlib.blake2b(library.read_bytes()).digest() if size <= _LARGE else b"%d" % size)
    for content in sorted(contents):
        digest.update(content)
    return digest.hexdigest()


def _devices(config: EngineConfig, backend: LlamaBackend) -> str:
    """Where layers and cells lie."""
    if backend.on_cpu:
        return "cpu"
    names = [f"{device.name} {device.description}" for device in look_at_devices() if device.kind is not DeviceKind.CPU]
    return " ".join([str(config.n_gpu_layers), *config.gpu_devices, *names])
