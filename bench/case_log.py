"""The results of a long run, case by case, so that an interrupted one goes on: JSON lines in a file, or only in memory.

The first line says which run it is; a file of another run is refused. A last line that was cut off is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.errors import BenchError

Record = dict[str, Any]


class CaseLog:
    """run: what decides the results (model, data, settings; JSON values). path None: nothing is kept on disk.

    Raises BenchError if the file can't be used.
    """

    def __init__(self, path: Path | None, run: Mapping[str, Any]) -> None:
        self._path = path
        self._records: dict[tuple[str, str], Record] = {}
        if path is None:
            return
        head = json.dumps({"run": dict(run)}, sort_keys=True)
        try:
            lines = _whole_lines(path)
            if not lines:
                path.write_text(head + "\n")
            elif lines[0] != head:
                why = _difference(lines[0], head)
                raise BenchError(f"--out {path} holds the results of another run ({why}); name another file")
            for line in lines[1:]:
                record = json.loads(line)
                self._records[record["group"], record["case"]] = record["result"]
        except OSError as error:
            raise BenchError(f"--out {path}: {error.strerror}; name a file that can be written") from None
        except (ValueError, TypeError, KeyError):
            raise BenchError(f"--out {path} is damaged; remove it, or name another file") from None

    def get(self, group: str, case: str) -> Record | None:
        """What is known of a case, or None."""
        return self._records.get((group, case))

    def add(self, group: str, case: str, result: Record) -> None:
        """Keep a case's result, on disk before this returns. Raises BenchError if it can't be written."""
        self._records[group, case] = result
        if self._path is None:
            return
        try:
            with self._path.open("a") as out:
                out.write(json.dumps({"group": group, "case": case, "result": result}) + "\n")
        except OSError as error:
            raise BenchError(f"--out {self._path}: {error.strerror}; make room and start again, it goes on") from None


def _whole_lines(path: Path) -> list[str]:
    """The file's lines; a torn one at its end is cut off, in the file too."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        path.write_bytes(whole)
    return whole.decode().splitlines()


def _difference(line: str, wanted: str) -> str:
    """Which settings differ, for the person."""
    try:
        theirs, ours = json.loads(line)["run"], json.loads(wanted)["run"]
        return ", ".join(f"{name} {theirs.get(name)!r} there" for name in ours if theirs.get(name) != ours[name])
    except (ValueError, TypeError, KeyError, AttributeError):
        return "its first line is not a run's"
