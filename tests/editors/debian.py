"""Packages of a Debian suite, unpacked beside the system: nothing on the host is installed or changed.

Owns a private apt root per call. The mirror is the one this machine's own sources name, MIDFILL_DEBIAN_MIRROR wins.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# what an unpacked tree that nobody configures has no use for
_NEEDLESS = (
    "debconf|dpkg|perl.*|libperl.*|tar|init-system-helpers|install-info|dash|bash|coreutils|sed|debianutils|base-passwd|libpam.*|"
    "passwd|.*-dev|binutils.*|lib.*san[0-9]*|linux-libc-dev|libgomp1|libquadmath0|libitm1|libgprofng0|libctf.*|"
    "libsframe.*|libbinutils|libc-dev-bin|rpcsvc-proto|python3.*|libpython3.*|gcc-[0-9]+|cpp-[0-9]+|cpp|gcc"
)

_UNREAD = ("doc", "man", "info", "locale")


class Unavailable(Exception):
    """A sentence: which package can't be had, and why."""


def mirror() -> str:
    """The address of this machine's Debian mirror."""
    if named := os.environ.get("MIDFILL_DEBIAN_MIRROR"):
        return named
    places = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    for place in places:
        if place.is_file() and (found := re.search(r"https?://\S+/debian/?(?=\s|$)", place.read_text(errors="replace"), re.M)):
            return found[0]
    raise Unavailable("no Debian mirror stands in /etc/apt; name one with MIDFILL_DEBIAN_MIRROR")


def unpack(suite: str, packages: Sequence[str], root: Path, needless: str = "") -> None:
    """The packages and what they depend on, under `root`. needless: of these, a regular expression of names."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{', '.join(packages)}: needs {tool}, that is, a Debian or Ubuntu")
    with tempfile.TemporaryDirectory() as folder:
        apt = _Apt(Path(folder), suite)
        leave_out = re.compile(f"({_NEEDLESS}{needless and '|' + needless})")
        try:
            apt.run("update")
            planned = re.findall(r"^Inst (\S+)", apt.run("--simulate", "install", *packages), re.M)
            wanted = [name for name in planned if name in packages or not leave_out.fullmatch(name)]
            apt.run("download", *wanted)
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise Unavailable(f"{', '.join(packages)} of Debian {suite}: {last}") from None
        unread = [f"--exclude=./usr/share/{name}" for name in _UNREAD]
        root.mkdir(parents=True, exist_ok=True)
        for archive in sorted(apt.downloads.glob("*.deb")):
            reader = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE)
            subprocess.run(["tar", "-x", "-C", str(root), "--keep-directory-symlink", *unread], stdin=reader.stdout, check=True)
            reader.wait()


class _Apt:
    def __init__(self, folder: Path, suite: str) -> None:
        self.downloads = folder / "debs"
        for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial", "debs"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        sources = folder / "etc/sources.list"
        signed = f"[signed-by={KEYRING}] " if KEYRING.exists() else ""
        sources.write_text(f"deb {signed}{mirror()} {suite} main\n")
        options = {
            "Dir::Etc": folder / "etc", "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "/nonexistent",
            "Dir::State": folder / "state", "Dir::State::status": folder / "status", "Dir::Cache": folder / "cache",
            "APT::Install-Recommends": "false", "APT::Architecture": _architecture(), "Debug::NoLocking": 1,
            "APT::Sandbox::User": "root", "Acquire::Languages": "none", "Acquire::Retries": 3,
        }  # fmt: skip
        self._options = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def run(self, *words: str) -> str:
        command = ["apt-get", *self._options, "-qq" if words[0] != "--simulate" else "-q", *words]
        done = subprocess.run(command, cwd=self.downloads, capture_output=True, text=True, check=True)
        return done.stdout


def _architecture() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
