"""The engine's process that is begun as soon as a language server is, while that one has its own modules to import.

Owns how every engine's command line begins. Loads almost nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from inference.runtime_dir import runtime_dir
from inference.spare import Spare

_MAIN = "import sys; sys.path.append(sys.argv.pop(1)); from lsp_server.__main__ import main; sys.exit(main())"


def begin() -> list[str]:
    """What any sub-command of midfill is appended to, to be run as a process that nobody's paths reach."""
    return [sys.executable, "-P", "-c", _MAIN, str(Path(__file__).resolve().parent.parent.parent)]


def if_needed() -> Spare | None:
    """None: an engine is there already, as far as can be seen."""
    try:
        if any(runtime_dir().glob("*.json")):
            return None
    except OSError:
        pass
    return Spare(begin(), ["engine", "--background", "--spare"])
