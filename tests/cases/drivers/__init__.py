"""Drivers: what a case tells in words, as a program. One for each id; it raises AssertionError, or says what it saw.

A driver takes every number and every text that it can from the case, so that another expectation is another outcome.
"""

from __future__ import annotations

from tests.cases.drivers import (
    budget,
    cancel,
    capacity,
    documents,
    drafts,
    families,
    large,
    loading,
    memory,
    offers,
    private,
    process,
    prompts,
    renames,
    results,
    reuse,
    saved,
    startup,
    stdio,
    sync,
    threads,
    trees,
    triggers,
    uris,
    watching,
)
from tests.cases.drivers.registry import DRIVERS

__all__ = [
    "DRIVERS", "budget", "cancel", "capacity", "documents", "drafts", "families", "large", "loading", "memory", "offers",
    "private", "process", "prompts", "renames", "results", "reuse", "saved", "startup", "stdio", "sync", "threads",
    "trees", "triggers", "uris", "watching",
]  # fmt: skip
