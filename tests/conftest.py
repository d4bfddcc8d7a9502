"""What every room's tests share: the real model, where it is there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.models.store import models_dir, resolve
from inference.runtime_dir import RUNTIME_VARIABLE
from inference.types import EngineError
from tests.support.ended import all_ended

MODEL = "qwen2.5-coder-0.5b"
_OUR_FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Side by side, temporary folders get a part for each worker; with pytest's own names no socket's path would fit then."""
    if getattr(config.option, "numprocesses", None) and config.option.basetemp is None:
        config.stash[_OUR_FOLDER] = config.option.basetemp = tempfile.mkdtemp(prefix="mf")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _OUR_FOLDER in config.stash:
        shutil.rmtree(config.stash[_OUR_FOLDER], ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def no_engine_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test meets an engine of the user's own, and none leaves one behind."""
    directory = tmp_path_factory.mktemp("run")
    before, os.environ[RUNTIME_VARIABLE] = os.environ.get(RUNTIME_VARIABLE), str(directory)
    yield
    if before is None:
        del os.environ[RUNTIME_VARIABLE]
    else:
        os.environ[RUNTIME_VARIABLE] = before
    all_ended(directory)


@pytest.fixture(scope="session")
def real_model_path() -> Path:
    """The 0.5B: what MIDFILL_TEST_MODEL names, or the one that `make setup` fetched. Skips, saying why, if it is not there."""
    try:
        return resolve(os.environ.get("MIDFILL_TEST_MODEL") or MODEL, models_dir())
    except EngineError as error:
        if os.environ.get("MIDFILL_REQUIRE_MODEL"):  # `make test` has fetched it: then its absence is a fault
            pytest.fail(str(error))
        pytest.skip(str(error))
