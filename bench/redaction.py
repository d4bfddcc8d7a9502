"""What is redacted in code that holds hardly a secret: how often the redaction of neighbouring files is wrong.

`python -m bench.redaction [FOLDER …] [--sample N] [--seed S]`; without folders the standard library of this Python and the
packages installed beside it. Prints JSON: files, lines and bytes read, redactions (places; the lines of a private key are one
each), files with any, the number of each kind, redactions per million lines, those outside of tests and examples, and a sample
of lines with the values masked. Whether one of them is wrong is for a person to see: what is found in published code is public,
but a key in it is a key all the same.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a file: the repository's root takes the place of this folder
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.errors import BenchError
from bench.revision import revision
from context.secrets import Secret, find_secrets

MAX_BYTES = 1 << 20  # of one file, as in the workspace's index
_TEXT = re.compile(
    r"\.(?:bash|c|cc|cfg|conf|cpp|cs|css|env|go|h|hpp|html|ini|java|js|json|jsx|kt|lua|md|mjs|pem|"
    r"php|properties|py|pyi|rb|rs|rst|scala|sh|sql|swift|toml|ts|tsx|txt|xml|yaml|yml|zig)",
    re.IGNORECASE,
)
_APART = re.compile(
    r"(?:^|[/_.-])(?:tests?|testing|testdata|certdata|examples?|docs?|fixtures?|spec)(?:[/_.-]|$)", re.IGNORECASE
)
_WIDEST = 160  # characters of a line in the sample


@dataclass(slots=True)
class Tally:
    """What was read and found. places: file, line, kind and the masked line of each."""

    files: int = 0
    lines: int = 0
    bytes: int = 0
    hit: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    places: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, text: str) -> None:
        self.files += 1
        self.lines += text.count("\n") + (not text.endswith("\n") and bool(text))
        self.bytes += len(text.encode("utf-8", "replace"))
        secrets = find_secrets(text)
        for secret in secrets:
            self.hit.add(name)
            self.kinds[secret.kind] += 1
            line = text.count("\n", 0, secret.start) + 1
            self.places.append({"file": name, "line": line, "kind": secret.kind, "text": masked(text, secret, secrets)})

    def report(self, n_sample: int, seed: int) -> dict[str, Any]:
        plain = [place for place in self.places if not _APART.search(place["file"])]
        return {
            "revision": revision(),
            "files": self.files,
            "lines": self.lines,
            "bytes": self.bytes,
            "redactions": len(self.places),
            "files_with_redactions": len(self.hit),
            "per_kind": dict(sorted(self.kinds.items())),
            "per_million_lines": round(1e6 * len(self.places) / max(self.lines, 1), 1),
            "outside_tests_and_examples": len(plain),
            "sample": random.Random(seed).sample(plain or self.places, min(n_sample, len(plain or self.places))),
        }


def masked(text: str, secret: Secret, every: Iterable[Secret]) -> str:
    """The line of a secret with each value on it replaced by its length; around the secret, if it is long."""
    start = text.rfind("\n", 0, secret.start) + 1
    end = text.find("\n", secret.end)
    end = len(text) if end < 0 else end
    line, at, place = "", start, 0
    for other in every:
        if start <= other.start and other.end <= end:
            place = len(line) + other.start - at if other is secret else place
            line += text[at : other.start] + f"<{other.end - other.start} characters>"
            at = other.end
    line += text[at:end]
    low = max(0, min(place - _WIDEST // 2, len(line) - _WIDEST))
    return line[low : low + _WIDEST].strip()


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each text file of a size that the workspace would index, in order; not of packages installed below."""
    for path in sorted(folder.rglob("*")):
        if "site-packages" in path.relative_to(folder).parts:
            continue
        if _TEXT.fullmatch(path.suffix) is None and path.name not in (".env", "Dockerfile", ".netrc", ".npmrc", ".pypirc"):
            continue
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
                continue
            data = path.read_bytes()
        except OSError:
            continue
        if b"\0" not in data[:8192]:
            yield path.relative_to(folder).as_posix(), data.decode("utf-8", "replace")


def measure(folders: Iterable[Path], n_sample: int, seed: int) -> dict[str, Any]:
    """The report over some folders. Raises BenchError if one is none."""
    tally = Tally()
    for folder in folders:
        if not folder.is_dir():
            raise BenchError(f"{folder} is no folder; name one that holds code")
        for name, text in texts(folder):
            tally.add(name, text)
    return tally.report(n_sample, seed)


def installed() -> list[Path]:
    """The standard library, and the packages of this environment."""
    return [Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))]


def main(argv: list[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog="bench.redaction", description=__doc__.split("\n", 1)[0] if __doc__ else None)
    made.add_argument("folders", nargs="*", type=Path, help="where code lies; without: this Python's library and packages")
    made.add_argument("--sample", type=int, default=20, help="lines to show, with the values masked")
    made.add_argument("--seed", type=int, default=0)
    arguments = made.parse_args(argv)
    try:
        report = measure(arguments.folders or installed(), arguments.sample, arguments.seed)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
