"""What a process in the background may know of who happened to start it: the variables that it has a use for.

Owns the list: where things are, what language errors are in, and what GPUs and their libraries are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|TZ|TMPDIR|TEMP|TMP|(LC|XDG|MIDFILL|PYTHON|VIRTUAL_ENV|LD|DYLD|CUDA|NVIDIA|HIP|HSA|ROCR|ROCM|GPU|"
    r"GGML|LLAMA|OMP|GOMP|KMP|MKL|OPENBLAS|VK|ZE|ONEAPI|SYCL|SSL)_.*|PYTHON.*|VIRTUAL_ENV|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|"
    r"PATHEXT|USERPROFILE|USERNAME|APPDATA|LOCALAPPDATA|PROGRAMDATA|PROGRAMFILES.*|NUMBER_OF_PROCESSORS|PROCESSOR_.*"
)


def reduced(environment: Mapping[str, str]) -> dict[str, str]:
    """What an engine may know of the editor that happened to start it."""
    return {name: value for name, value in environment.items() if _KEPT.fullmatch(name.upper())}
