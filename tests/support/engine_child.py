"""The engine's own command, made to do what a test needs: `python -m tests.support.engine_child engine --background …`.

MIDFILL_TEST_VERSION: what it says its version is. MIDFILL_TEST_STEP_S: how long each step of the model takes at least.
MIDFILL_TEST_CRASH: a file; while it is there, loading the model ends the process as native code does.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from lsp_server.__main__ import main
from lsp_server.engines import start as engine_start


def spoil(environment: dict[str, str]) -> None:
    if version := environment.get("MIDFILL_TEST_VERSION"):
        engine_start.version = lambda: version  # type: ignore[attr-defined]
    from inference.llama import model, opening

    decode, open_engine = model.LlamaBackend.decode, opening.open_engine
    step_s, crash = float(environment.get("MIDFILL_TEST_STEP_S", "0")), environment.get("MIDFILL_TEST_CRASH", "")

    def slow(backend: model.LlamaBackend, rows: Any) -> Any:
        time.sleep(step_s)
        return decode(backend, rows)

    def crashing(*arguments: Any, **options: Any) -> Any:
        if crash and Path(crash).exists():
            os.write(2, b"crashing\n")
            os.abort()
        return open_engine(*arguments, **options)

    if step_s:
        model.LlamaBackend.decode = slow  # type: ignore[method-assign]
    opening.open_engine = crashing


if __name__ == "__main__":
    spoil(dict(os.environ))
    sys.exit(main())
