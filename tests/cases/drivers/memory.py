"""memory-and-capacity: bytes, never seconds. Resident memory is that of a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.cases.case import HANG_S, Case
from tests.cases.drivers.registry import driver

ROOT = Path(__file__).resolve().parent.parent.parent.parent
# A quarter of the case's sizes: what is asked for is how they compare, and touching so many pages takes its time.
MB = (1 << 20) // 4


@driver("memory-and-capacity-04")
async def stow_within_its_limit(case: Case) -> str:
    """Evicting before inserting shows in the peak: of what is in the stow and the state that is just being taken out, the one
    never exceeds the limit, and the other is one. Flat: within a tenth of a state."""
    setup = case.input["setup"]
    limit, state = setup["ram_cache_mb"] * MB, setup["state_mb"] * MB
    (n_prompts,) = (int(found[1]) for m in case.input["messages"] if (found := re.fullmatch(r"(\d+) distinct prompts", m)))
    found = re.fullmatch(r"peak rss <= base \+ (\d+) MB \+ one state; .*flat after the (\d+)th prompt", case.expected["note"])
    assert found is not None, "the note says something else"
    allowed, n_settled = int(found[1]) * MB + state, int(found[2])
    done = subprocess.run(
        [sys.executable, "-m", "tests.cases.stowing", str(state), str(limit), str(n_prompts)],
        cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    weighed = json.loads(done.stdout)
    peak = weighed["highest"] - weighed["base"]
    assert peak <= allowed, f"{peak / MB:.0f} MB above the base, {allowed / MB:.0f} allowed"
    assert max(weighed["held"]) <= limit, f"the stow held {max(weighed['held']) / MB:.0f} MB"
    n_stows = n_prompts - 2 if state <= limit else 0  # two stay resident, and what can't fit is not kept
    assert peak > state and weighed["n_stows"] == n_stows, f"{weighed['n_stows']} states stowed: this shows nothing"
    flat = weighed["after"][n_settled:]
    assert max(flat) - min(flat) < state / 10, f"from {min(flat) / MB:.0f} to {max(flat) / MB:.0f} MB after the {n_settled}th"
    apart = (max(flat) - min(flat)) / MB
    return f"{n_stows} states; at most {peak / MB:.0f} MB above the base, then {apart:.1f} MB apart (sizes of the case)"
