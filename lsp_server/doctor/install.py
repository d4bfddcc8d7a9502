"""Findings about the installation: environment, Python, packages, the command, the settings.

Owns these checks. Refuses native code.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from inference import child
from lsp_server.__main__ import ForeignRoomError, check_installation, version
from lsp_server.config import FILE_VARIABLE, Config, Sources
from lsp_server.doctor.findings import Finding, fault, note, ok, one_line, warning

PYTHON = (3, 11)
_ENTRY = "lsp_server.__main__:main"
_PIP_S = 60.0
_ANEW = "install midfill anew (in a checkout: `rm .venv/ready`, then `make setup`)"


def installation() -> Iterator[Finding]:
    """The environment, and whether the rooms in it are midfill's."""
    try:
        check_installation()
    except ForeignRoomError as error:
        yield fault("installation", str(error))
        return
    where = f"midfill {version()} in {sys.prefix}"
    if sys.prefix == sys.base_prefix:
        yield note(
            "installation",
            f"{where}, shared with everything else that Python runs",
            "install midfill into an environment of its own (pipx, uv tool or a virtual environment)",
        )
    else:
        yield ok("installation", f"{where}, an environment of its own")


def python() -> Iterator[Finding]:
    name = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}, {8 * _pointer_bytes()} bits"
    if sys.version_info[:2] < PYTHON:
        yield fault("python", name, f"install midfill with Python {PYTHON[0]}.{PYTHON[1]} or newer")
    else:
        yield ok("python", name)


def _pointer_bytes() -> int:
    return 8 if sys.maxsize > 1 << 32 else 4


def packages() -> Iterator[Finding]:
    """What pip itself says of the installed packages and their versions."""
    try:
        metadata.version("midfill")
    except metadata.PackageNotFoundError:
        yield note("packages", "midfill is not installed, it runs from its source", "install it: `pip install --editable .`")
        return
    ended = child.run([sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "check"], _PIP_S)
    said = [line for line in ended.output.decode("utf-8", "replace").splitlines() if line.strip()]
    if ended.code == 0:
        yield ok("packages", "all there, in the versions that midfill asks for")
    elif ended.code == 1 and said and not ended.is_late:
        for line in said:
            report = fault if line.startswith("midfill ") and "not installed" in line else warning
            yield report("packages", line.rstrip("."), _ANEW)
    else:
        last = one_line((ended.error.strip().splitlines() or [""])[-1])[:200]
        yield warning("packages", f"pip could not check them: {ended.how} {last}".rstrip())


def command() -> Iterator[Finding]:
    """The command that editors start."""
    entries = metadata.entry_points(group="console_scripts", name="midfill")
    script = Path(sys.executable).parent / ("midfill.exe" if os.name == "nt" else "midfill")
    if not any(entry.value == _ENTRY for entry in entries) or not script.exists():
        yield note("command", f"there is no command {script}", f"start the server with `{sys.executable} -m lsp_server lsp`")
        return
    found = shutil.which("midfill")
    if found is None:
        yield ok("command", f"{script} (not on PATH: give the editor this whole path)")
    elif not os.path.samefile(found, script):
        yield note("command", f"{script}, but PATH leads to another one, {found}", f"give the editor the whole path {script}")
    else:
        yield ok("command", str(script))


def settings(sources: Sources, config: Config, problems: tuple[str, ...]) -> Iterator[Finding]:
    """problems: what `lsp_server.config.load` said."""
    for problem in problems:
        yield warning("settings", problem, "correct it; docs/settings.md lists all settings")
    if not config.server.enabled:
        yield warning("settings", "completion is switched off", "set enabled = true")
    file = sources.file
    if file is None or problems:
        return
    try:
        status = file.stat()
    except OSError:
        yield ok("settings", f"the defaults ({file} does not exist; {FILE_VARIABLE} can name another file)")
        return
    if os.name != "nt" and status.st_mode & stat.S_IWOTH:
        yield warning("settings", f"everybody may write {file}", f"`chmod o-w {file}`")
    else:
        yield ok("settings", str(file))
