"""Asking `lsp_server.doctor.child`: start it, read its lines, and tell its end, whatever that is, in one sentence.

Owns the child's command, its environment and its time limit. Refuses native code in this process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference import child
from inference.child import Ended
from lsp_server.doctor.findings import one_line

_log = logging.getLogger(__name__)

BUILD_S = 60.0
COMPLETION_S = 300.0
_CODE = "import sys; sys.path.append(sys.argv.pop(1)); from lsp_server.doctor.child import main; sys.exit(main(sys.argv[1:]))"
_MOST_SAID = 300  # characters of what a child wrote that a line quotes


@dataclass(frozen=True, slots=True)
class Answer:
    """result: what was asked for, None if it didn't come. error: then why, one sentence. build: as far as it was known.

    is_broken: llama-cpp-python itself could not be loaded. signal: what ended the child, e.g. SIGILL, else "".
    located: the model's path, name and a note; None = `absent` says why, or nothing is known of it. wanted: id of one that is
    absent, but should be there.
    """

    result: Mapping[str, Any] | None
    error: str = ""
    is_broken: bool = False
    signal: str = ""
    build: Mapping[str, Any] | None = None
    located: Mapping[str, str] | None = None
    absent: str = ""
    wanted: str = ""


def ask(question: str, model: str, timeout_s: float) -> Answer:
    """question: "build" or "completion". model: "" = as the settings say."""
    home = str(Path(__file__).resolve().parent.parent.parent)
    # -P: files in the working directory must not be taken for modules. A native abort would start a debugger for its trace.
    command = [sys.executable, "-P", "-c", _CODE, home, question, model]
    ended = child.run(command, timeout_s, {**os.environ, "GGML_NO_BACKTRACE": "1"})
    _log.debug("the child's standard error: %s", ended.error)
    return read(ended, timeout_s)


def read(ended: Ended, timeout_s: float) -> Answer:
    """The answer of a child that has ended."""
    seen: dict[str, Any] = {}
    for line in ended.output.decode("utf-8", "replace").splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue  # cut off where the child died
        if isinstance(message, dict):
            seen.update(message)
    known = {name: seen[name] for name in ("build", "located", "absent", "wanted") if name in seen}
    if "error" in seen:
        return Answer(None, one_line(str(seen["error"])), bool(seen.get("is_broken")), **known)
    if "result" in seen and ended.is_good:
        return Answer(seen["result"], **known)
    # An end after the answer, while native memory was being freed, is still an end that a server would suffer.
    doing = "leaving" if "result" in seen else seen.get("doing", "starting")
    how = f"it took longer than {timeout_s:g} s and was ended" if ended.is_late else ended.how
    error = f"while {doing}, {how}"
    if last := _last_line(ended.error):
        error += f" (it said: {last})"
    return Answer(None, error, signal=ended.signal, **known)


def _last_line(text: str) -> str:
    lines = [one_line(line) for line in text.splitlines() if line.strip()]
    return lines[-1][:_MOST_SAID] if lines else ""
