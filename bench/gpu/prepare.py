"""What a machine with a card and no network needs to build the engine and to measure it, as a folder of pieces.

`python -m bench.gpu.prepare FOLDER [--model GGUF]…` (here, with a network) fetches through pip the source of llama-cpp-python,
in the version that this project is made for and without what no build needs, and the wheels to build and to test it;
`bench/gpu/run.sh FOLDER` (there) does the rest. A wheel that is fetched is one for this Python, system and processor.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from bench.errors import BenchError
from bench.gpu.pieces import cut

ENGINE = "llama-cpp-python"
TO_BUILD = ("scikit-build-core[pyproject]>=0.9.2", "cmake>=3.21", "ninja", "setuptools>=77", "wheel")
TO_RUN = (
    "numpy", "typing-extensions", "diskcache", "jinja2", "gguf", "psutil", "pytest", "hypothesis", "platformdirs", "tqdm",
    "aiohttp", "pathspec",
)  # fmt: skip
# of the source: history, pages, vocabularies of its own tests, a web page
NEEDLESS = ("*/.git/*", "*/vendor/llama.cpp/docs/*", "*/models/*.gguf*", "*/tools/ui/*", "*/vendor/llama.cpp/benches/*")


def slim(source: Path, target: Path) -> Path:
    """The archive again, without what no build needs."""
    with tarfile.open(source) as old, tarfile.open(target, "w:gz", compresslevel=6) as new:
        for member in old:
            if any(fnmatch.fnmatch(member.name, pattern) for pattern in NEEDLESS):
                continue
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    return target


def fetch(folder: Path) -> list[Path]:
    """The slim source and the wheels. BenchError: pip could not get them."""
    version = next((r for r in metadata.requires("midfill") or () if r.startswith(ENGINE)), ENGINE)
    _pip("download", "--no-deps", "--no-binary", ENGINE, "--dest", str(folder), version)
    _pip("download", "--only-binary", ":all:", "--dest", str(folder), *TO_BUILD, *TO_RUN)
    (source,) = folder.glob("llama_cpp_python-*.tar.gz")
    (folder / "slim").mkdir()
    return [slim(source, folder / "slim" / source.name), *sorted(folder.glob("*.whl"))]


def _pip(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], check=False)
    if done.returncode:
        raise BenchError(f"pip {words[0]} ended with exit status {done.returncode}; its output says why")


def main(argv: list[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog="python -m bench.gpu.prepare", description="What bench/gpu/run.sh needs, in pieces.")
    made.add_argument("folder", type=Path)
    made.add_argument(
        "--model", type=Path, action="append", default=[],
        help="a real model, to compare its text on the card with that on the CPU; a second one, to measure drafts with both",
    )  # fmt: skip
    options = made.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as temporary:
            files = fetch(Path(temporary))
            pieces = cut([*files, *options.model], options.folder)
    except (BenchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    total = sum(piece.stat().st_size for piece in pieces)
    print(f"{len(pieces)} pieces, {total / 1e6:.0f} MB, in {options.folder}; there: bench/gpu/run.sh {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
