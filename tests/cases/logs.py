"""What the program logs, at every level, kept for looking at."""

from __future__ import annotations

import logging


class Logs(logging.Handler):
    """As a context manager: everything logged meanwhile."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "asyncio":
            self.lines.append((record.levelno, self.format(record)))

    def __enter__(self) -> Logs:
        root = logging.getLogger()
        self._before = root.level
        root.addHandler(self)
        root.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._before)

    def above(self, level: int) -> list[str]:
        """Lines more serious than `level`."""
        return [line for at, line in self.lines if at > level]

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)
