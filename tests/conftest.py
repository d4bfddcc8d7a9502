"""What every room's tests share: the real model, where it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inference.models.store import models_dir, resolve
from inference.types import EngineError

MODEL = "qwen2.5-coder-0.5b"


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    """The 0.5B: what MIDFILL_TEST_MODEL names, or the one that `make setup` fetched. Skips, saying why, if it is not there."""
    try:
        return resolve(os.environ.get("MIDFILL_TEST_MODEL") or MODEL, models_dir())
    except EngineError as error:
        if os.environ.get("MIDFILL_REQUIRE_MODEL"):  # `make test` has fetched it: then its absence is a fault
            pytest.fail(str(error))
        pytest.skip(str(error))
