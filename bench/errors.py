"""What can go wrong in a bench, in words for the person who started it."""

from __future__ import annotations


class BenchError(Exception):
    """The message is one sentence that says what to do, or what was seen."""
