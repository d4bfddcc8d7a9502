"""The end of a bench's command line: from options to one result, printed as people or programs want it.

Owns what is said when a run is interrupted or can't go on, and the exit status. Refuses to know what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from bench.errors import BenchError
from inference.types import EngineError


def answer(
    options: argparse.Namespace,
    run: Callable[[argparse.Namespace], Awaitable[dict[str, Any]]],
    table: Callable[[dict[str, Any]], str],
) -> int:
    """Exit status. options: with `json` (print what `run` has made, no table) and `out` (a run's own log, or None)."""

    async def made() -> dict[str, Any]:
        return await run(options)

    try:
        result = asyncio.run(made())
    except KeyboardInterrupt:
        kept = f"; start it again with --out {options.out} and it goes on" if options.out else ""
        print(f"\ninterrupted{kept}", file=sys.stderr)
        return 130
    except (BenchError, EngineError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(result) if options.json else table(result))
    return 0
