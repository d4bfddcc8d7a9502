"""Where midfill keeps what it can make again."""

from __future__ import annotations

from pathlib import Path


def cache_dir() -> Path:
    """Of this user. It need not exist."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("midfill", appauthor=False))
