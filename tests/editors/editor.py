"""What the tests need of an editor, whichever it is. A driver presses keys and looks; it never calls a client's functions to
change text.

Lines and columns count from 0, columns in characters.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = float(os.environ.get("MIDFILL_TEST_WAIT_S", "30"))  # for what must come; nothing is ever late because of it

# of the server: it asks at every key, wherever the cursor stands
ASKED_AT_ONCE = """
index = false
reply_deadline_ms = 0
cold_budget_ms = 0
background = "off"
wait_ms = 0
back_off_ms = 0
after_delete = "on"
inside_words = "on"
in_comments = "on"
in_strings = "on"
"""

# accept: all of it. undo: of the last change, by the editor's own key.
Action = Literal["accept", "word", "line", "dismiss", "next", "previous", "trigger", "undo"]
Command = Literal["pause", "resume", "restart", "explain"]


class Editor(Protocol):
    """An editor with the client of this project in it."""

    def open(self, path: Path) -> None:
        """Show the file; the server is started, or told of it."""

    def place(self, line: int, column: int) -> None:
        """Put the cursor there, ready to type."""

    def type(self, text: str, then: Action | None = None) -> None:
        """Press the keys, and `then` without a pause; returns when the editor has taken them."""

    def press(self, action: Action) -> None: ...
    def bracket_pairs(self) -> None:
        """From now on the editor closes brackets that are opened."""

    def ghost(self) -> str:
        """The text that is shown and not there; empty: none."""

    def as_shown(self, ghost: str) -> str:
        """How `ghost` gives that text, at the cursor as it stands."""

    def text(self) -> str:
        """Of the file that is shown, as it is in the editor."""

    def cursor(self) -> tuple[int, int]: ...
    def save(self) -> None: ...
    def close(self, path: Path) -> None:
        """Close that file, without saving it."""

    def messages(self) -> list[str]:
        """What the user was told by the client, oldest first."""

    def status(self) -> str:
        """What the client shows of the server's state."""

    def command(self, name: Command) -> None:
        """Run the client's own command."""

    def beside(self) -> str:
        """What other windows than the file's show."""

    def quit(self) -> None: ...


def until(wanted: Callable[[], Any], what: str, wait_s: float = 0) -> Any:
    """What `wanted` gives as soon as it is true."""
    end, pause_s = time.monotonic() + (wait_s or WAIT_S), 0.01
    while True:
        if found := wanted():
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what} never came")
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.1)  # looking costs, too: what is long in coming is looked for more rarely


@dataclass
class Scene:
    """A workspace, the server that editors are to start in it, and what that server has heard.

    server: its command line. asked, settings: the lines of its `midfill.toml`.
    """

    folder: Path
    server: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    settings: str = ""
    asked: str = ASKED_AT_ONCE

    def __post_init__(self) -> None:
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / ".git").mkdir()  # where a workspace begins
        for name in ("home", "run"):
            (self.folder / name).mkdir(mode=0o700)
        self.script = self.folder / "script.json"
        self.say()
        settings = self.folder / "midfill.toml"
        settings.write_text(self.asked + self.settings)
        if not self.server:
            self.server = (sys.executable, "-m", "tests.editors.server", str(self.script))
        home = str(self.folder / "home")
        self.environment = {
            **{f"XDG_{name}_HOME": home for name in ("CACHE", "DATA", "CONFIG", "STATE")},
            "HOME": home,
            "PYTHONPATH": str(ROOT),
            "MIDFILL_CONFIG": str(settings),
            "MIDFILL_RUNTIME_DIR": str(self.folder / "run"),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            **self.environment,
        }

    def environ(self, **more: str) -> dict[str, str]:
        """For the editor's process."""
        return {**os.environ, **self.environment, **more}

    def say(self, *texts: str, **more: Any) -> None:
        """From now on the model says this: see `tests.editors.server`."""
        part = self.script.with_suffix(".part")
        part.write_text(json.dumps({"says": texts, **more}))
        part.replace(self.script)

    def heard(self, event: str) -> list[dict[str, Any]]:
        """What has reached the server."""
        log = self.script.with_name(self.script.name + ".log")
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        heard = [json.loads(line) for line in lines if line.endswith("\n")]
        return [one for one in heard if one["event"] == event]

    def file(self, content: str, name: str = "demo.py") -> Path:
        """content: with its line ends as they are to be."""
        path = self.workspace / name
        path.write_bytes(content.encode())
        return path

    @property
    def command(self) -> str:
        return shlex.join(self.server)

    def midfill(self) -> str:
        """The product's own command."""
        return shutil.which("midfill", path=str(Path(sys.executable).parent)) or "midfill"
