"""GGUF files that other programs keep on this machine: the caches of Ollama, LM Studio and the model hub.

Owns where these programs keep them and how. Reads names and small manifests only, looks at a bounded number of entries, and
passes over what it cannot read or make sense of. Refuses to change anything there.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MOST_ENTRIES = 20_000  # looked at, per program
_MOST_MANIFEST_BYTES = 1 << 20
_MOST_LEVELS = 6
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LATER_SHARD = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_MODEL_LAYER = "application/vnd.ollama.image.model"
_USUAL = frozenset({"registry.ollama.ai", "ollama.com", "library"})  # left out of a name, as Ollama does

PREFIXES = ("ollama:", "lmstudio:", "hub:")


@dataclass(frozen=True, slots=True)
class Found:
    """A model file of another program.

    name: what it can be called by, e.g. "ollama:qwen2.5-coder:7b". owner: the program. sha256: what the program calls the file
    by; None where it does not name it so. hub: repository and file, where the place tells.
    """

    name: str
    owner: str
    path: Path
    n_bytes: int
    sha256: str | None = None
    hub: tuple[str, str] = ("", "")


def scan(environment: Mapping[str, str] = os.environ, home: Path | None = None) -> tuple[Found, ...]:
    """What is there, by name; each name once, though several may lead to one file. home: None = the user's."""
    if home is None:
        try:
            home = Path.home()
        except RuntimeError:  # no home directory is known
            return ()
    every = itertools.chain(_ollama(environment, home), _lm_studio(home), _hub(environment, home))
    found: dict[str, Found] = {}
    for one in sorted(every, key=lambda one: (one.name, one.path)):
        found.setdefault(one.name, one)
    return tuple(found.values())


def named(name: str) -> Found | None:
    """The file of that name; None if there is none."""
    return next((one for one in scan() if one.name == name), None)


def _ollama(environment: Mapping[str, str], home: Path) -> Iterator[Found]:
    own = environment.get("OLLAMA_MODELS", "")
    # As a system service on Linux it runs as a user of its own, whose home this is.
    roots = [Path(own)] if own else [home / ".ollama" / "models", Path("/usr/share/ollama/.ollama/models")]
    for root in roots:
        for manifests in (root / "manifests", root / "manifests-v2", root / "manifest-v2"):
            for path in _files(manifests):
                digest = _model_digest(path)
                blob = root / "blobs" / f"sha256-{digest}"
                n_bytes = _gguf_bytes(blob) if digest else None
                if digest and n_bytes is not None:
                    *parts, tag = path.relative_to(manifests).parts
                    name = "/".join(part for part in parts if part not in _USUAL)
                    yield Found(f"ollama:{name}:{tag}", "Ollama", blob, n_bytes, digest)


def _model_digest(manifest: Path) -> str:
    """Hexadecimal digest of the model's layer; "" if the manifest names none."""
    try:
        with open(manifest, encoding="utf-8") as file:
            layers: Any = json.loads(file.read(_MOST_MANIFEST_BYTES))["layers"]
        digests = [str(layer["digest"]) for layer in layers if layer["mediaType"] == _MODEL_LAYER]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    digest = digests[0].removeprefix("sha256:") if len(digests) == 1 else ""  # several: the model is cut into layers
    return digest if _SHA256.fullmatch(digest) else ""


def _lm_studio(home: Path) -> Iterator[Found]:
    for root in (home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"):
        for path in _files(root):
            n_bytes = _gguf_bytes(path) if _is_model_name(path.name) else None
            if n_bytes is not None:
                parts = path.relative_to(root).parts
                hub = ("/".join(parts[:2]), "/".join(parts[2:])) if len(parts) > 2 else ("", "")
                yield Found("lmstudio:" + "/".join(parts), "LM Studio", path, n_bytes, hub=hub)


def _hub(environment: Mapping[str, str], home: Path) -> Iterator[Found]:
    for repository in _directories(_hub_root(environment, home)):
        kind, *names = repository.name.split("--")
        if kind != "models" or not names:
            continue
        snapshots = repository / "snapshots"
        for path in _files(snapshots):
            n_bytes = _gguf_bytes(path) if _is_model_name(path.name) else None
            if n_bytes is None:
                continue
            blob = _real(path).name  # a link to the blob, which is named by its digest; some systems have no links
            digest = blob if _SHA256.fullmatch(blob) else None
            hub = ("/".join(names), "/".join(path.relative_to(snapshots).parts[1:]))
            yield Found("hub:" + "/".join(hub), "the hub's cache", path, n_bytes, digest, hub)


def _hub_root(environment: Mapping[str, str], home: Path) -> Path:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(variable):
            return Path(os.path.expanduser(environment[variable]))
    if environment.get("HF_HOME"):
        return Path(os.path.expanduser(environment["HF_HOME"])) / "hub"
    cache = environment.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else home / ".cache") / "huggingface" / "hub"


def _is_model_name(name: str) -> bool:
    """A GGUF that can be opened: no projector for images, and of a model in several files only the first."""
    low = name.lower()
    return low.endswith(".gguf") and "mmproj" not in low and (not _LATER_SHARD.search(low) or "-00001-of-" in low)


def _files(top: Path) -> Iterator[Path]:
    """Files below a directory, as far as they can be seen, and not endlessly many; links to directories are not followed."""
    left, waiting = _MOST_ENTRIES, [(top, 0)]
    while waiting:
        directory, level = waiting.pop()
        for entry in _entries(directory):
            left -= 1
            if left < 0:
                return
            if _is_directory(entry):
                if level < _MOST_LEVELS:
                    waiting.append((Path(entry.path), level + 1))
            else:
                yield Path(entry.path)


def _directories(top: Path) -> list[Path]:
    return [Path(entry.path) for entry in itertools.islice(_entries(top), _MOST_ENTRIES) if _is_directory(entry)]


def _entries(directory: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except (OSError, ValueError):
        return


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _gguf_bytes(path: Path) -> int | None:
    """Size of a file that begins like a GGUF; None for anything else."""
    try:
        if not path.is_file():  # a pipe would block
            return None
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size if file.read(4) == b"GGUF" else None
    except (OSError, ValueError):
        return None


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
