"""The memory plan: sums against what llama.cpp reports, the rules in their order, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.cache_type import usable_cache
from inference.config import EngineConfig
from inference.llama.buffers import Buffer, parse, settled
from inference.llama.devices import look_at_build
from inference.llama.model import LlamaBackend
from inference.memory_free import DeviceFree, Free, free_address, look_free
from inference.memory_need import KV_TYPES, Options, most_layers, need
from inference.memory_plan import Plan, following, make_plan
from inference.memory_report import MemoryReport, describe, notice, refusal, taken
from inference.models import registry, store
from inference.models.choice import Located
from inference.models.gguf_sizes import ModelSizes, Tensor, read_sizes
from inference.smaller_model import that_fits, without_native_code
from inference.types import EngineError
from tests.inference.machine import machine
from tests.support.tiny_gguf import write_tiny

GB, MB = 10**9, 10**6
LINE = "load_tensors:   CPU_Mapped model buffer size =   462.96 MiB"


def seven() -> ModelSizes:
    """The shape of a 7B: 28 layers, 4 heads of keys and values, 4.7 GB in all."""
    layers = tuple(Tensor(f"blk.{i}.ffn_up.weight", i, (3584, 18944), 12, 150 * MB) for i in range(28))
    ends = (
        Tensor("token_embd.weight", -1, (3584, 152064), 12, 300 * MB),
        Tensor("output.weight", -1, (3584, 152064), 14, 450 * MB),
    )
    return ModelSizes(
        name="seven", architecture="qwen2", n_layers=28, n_embd=3584, n_heads=28, kv_heads=(4,) * 28, key_length=128,
        value_length=128, is_mla=False, state_bytes=0, window=0, n_ff=18944, n_inner=0, n_vocab=152064, n_ctx_train=32768,
        tensors=(*layers, *ends),
    )  # fmt: skip


SEVEN = seven()
CONFIG = EngineConfig(n_threads=2)


def plan(ram: int, config: EngineConfig = CONFIG, **options: object) -> Plan:
    return make_plan(SEVEN, config, Free(ram, ram, **options))  # type: ignore[arg-type]


def lowered(made: Plan) -> list[str]:
    return [each.name for each in made.lowered]


# -- sums


@pytest.mark.parametrize("arch", ["llama", "qwen2", "gemma2", "mamba"])
@pytest.mark.parametrize(
    ("n_ctx", "n_sequences", "kv_type", "flash"),
    [
        (256, 1, "f16", "auto"), (1024, 3, "f16", "off"), (1024, 2, "f16", "on"),
        (1024, 2, "q8_0", "auto"), (2048, 1, "q4_0", "on"),
    ],
)
def test_what_is_planned_is_what_llama_cpp_takes(
    tiny_models: dict[str, Path], arch: str, n_ctx: int, n_sequences: int, kv_type: str, flash: str
) -> None:
    config = EngineConfig(
        n_ctx=n_ctx, n_sequences=n_sequences, kv_type=kv_type, flash_attention=flash, n_gpu_layers=0, n_threads=1
    )
    backend = LlamaBackend(config, tiny_models[arch])
    backend.close()
    made = make_plan(read_sizes(tiny_models[arch]), config, Free(GB), look_at_build().cpu_features)
    report = MemoryReport(made, taken(backend.buffers))
    assert abs(report.planned_bytes / report.actual_bytes - 1) < 0.1
    assert {kind for _, kind, _ in report.actual} == {"model", "output", "RS" if arch == "mamba" else "KV", "compute"}
    assert all(buffer.is_on_host for buffer in backend.buffers)


def test_the_cache_is_two_rows_a_layer_head_and_cell() -> None:
    for kv_type, per_number in (("f16", 2), ("q8_0", 34 / 32), ("q4_0", 18 / 32)):
        made = need(SEVEN, Options(4096, 3, kv_type))
        (cache,) = (part for part in made.parts if part.name == "cache")
        assert cache.host == 2 * 28 * 4 * 128 * per_number * 8192 and cache.device == 0


def test_a_compressed_cache_keeps_one_row_and_no_values() -> None:
    mla = replace(SEVEN, is_mla=True, kv_heads=(1,) * 28, key_length=576, value_length=512)
    (cache,) = (part for part in need(mla, Options(1024, 1)).parts if part.name == "cache")
    assert cache.host == 28 * 576 * 2 * 2048


def test_what_lies_on_a_device_does_not_lie_in_ram() -> None:
    everything = need(SEVEN, Options(4096, 3))
    for n in (0, 1, 10, most_layers(SEVEN)):
        made = need(SEVEN, Options(4096, 3, n_gpu_layers=n))
        weights, cache = (next(part for part in made.parts if part.name == name) for name in ("weights", "cache"))
        assert weights.host + weights.device == SEVEN.weight_bytes
        assert cache.host + cache.device == next(part.host for part in everything.parts if part.name == "cache")
        assert weights.device == (450 * MB + (n - 1) * 150 * MB if n else 0), "the output goes first"
    assert weights.host == 300 * MB and cache.host == 0


def test_what_the_cpu_lays_out_anew() -> None:
    def repacked(*features: str) -> int:
        return next(part.host for part in need(SEVEN, Options(512, 1), features).parts if part.name == "repacked")

    assert repacked() == repacked("AVX2") == repacked("REPACK") == 0
    assert repacked("REPACK", "AVX2") == 28 * 150 * MB, "the embedding is only read by row"
    assert repacked("REPACK", "DOTPROD") == 28 * 150 * MB + 450 * MB
    tied = replace(SEVEN, tensors=SEVEN.tensors[:-1])
    assert next(p.host for p in need(tied, Options(512, 1), ("REPACK", "AVX2")).parts if p.name == "repacked") == 4500 * MB
    on_device = need(tied, Options(512, 1, n_gpu_layers=29))
    assert next(part.device for part in on_device.parts if part.name == "weights") == 4500 * MB, "kept twice"


def test_shapes_are_read_from_files(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    llama, gemma, mamba = (read_sizes(tiny_models[name]) for name in ("llama", "gemma2", "mamba"))
    assert (llama.kv_heads, llama.key_length, llama.value_length, llama.n_heads) == ((1, 1), 32, 32, 2)
    assert (gemma.window, llama.window) == (16, 0) and gemma.architecture == "gemma2"
    assert mamba.kv_heads == (0, 0) and not mamba.has_cache and mamba.state_bytes == 2 * (3 * 128 + 16 * 128) * 4
    assert llama.n_vocab == len([t for t in llama.tensors if t.name == "output.weight"][0:1]) * llama.tensors[0].dims[1]
    with pytest.raises(EngineError, match="no file"):
        read_sizes(tmp_path / "none.gguf")


# -- rules


def test_with_room_for_everything_nothing_is_lowered() -> None:
    made = plan(20 * GB)
    assert made.fits and not made.lowered and made.applied(CONFIG) == CONFIG
    assert notice(made, CONFIG) == "" and "cache 470 MB (f16, 8192 tokens)" in describe(made)


def test_the_rules_come_in_their_order() -> None:
    """With ever 10 MB less, until the file itself has no room any more."""
    asked = plan(20 * GB).need.host
    seen = []
    for ram in range(asked + 500 * MB, 4_900 * MB, -10 * MB):
        made = plan(ram)
        if made.is_paged:
            break
        assert made.fits and made.need.host <= ram
        names = lowered(made)
        if names not in seen:
            seen.append(names)
    # what is kept in RAM besides goes first; then each rule, and what an earlier one took comes back where that is enough
    assert [[name for name in names if name != "stow_bytes"] for names in seen] == [
        [], [], ["flash_attention"], ["flash_attention", "n_sequences"], ["n_ctx"], ["n_sequences", "n_ctx"],
        ["flash_attention", "n_sequences", "n_ctx"], ["n_ctx", "kv_type"], ["n_sequences", "n_ctx", "kv_type"],
    ]  # fmt: skip
    assert not seen[0] and all("stow_bytes" in names for names in seen[1:])


@settings(max_examples=40, deadline=None)
@given(
    ram=st.integers(4 * GB, 9 * GB),
    n_ctx=st.sampled_from([512, 3000, 4096, 16384]),
    n_sequences=st.integers(1, 8),
    card=st.sampled_from([None, 0, GB, 3 * GB, 8 * GB]),
    flash=st.sampled_from(["auto", "off"]),
)
def test_a_plan_that_fits_does(ram: int, n_ctx: int, n_sequences: int, card: int | None, flash: str) -> None:
    config = replace(CONFIG, n_ctx=n_ctx, n_sequences=n_sequences, flash_attention=flash)
    devices = () if card is None else (DeviceFree("CUDA0", card),)
    made = plan(ram, config, devices=devices)
    options = made.options
    assert options.n_ctx <= n_ctx and 1 <= options.n_sequences <= n_sequences
    assert options.kv_type == "f16" or flash == "auto"
    assert made.need.device <= (card or 0) or not made.fits
    if made.fits and not made.is_paged:
        assert made.need.host <= ram
    if made.fits and made.is_paged:
        assert made.need.host_alone <= ram
    more = plan(ram + GB, config, devices=devices)
    assert options.kv_type != "q4_0", "half as many completions are right: nobody gets that unasked"
    assert more.fits >= made.fits and (more.options.n_ctx >= options.n_ctx or not made.fits or made.is_paged)


def test_a_file_that_does_not_fit_is_read_again_and_nothing_is_taken_away() -> None:
    made = plan(3 * GB)
    assert made.fits and made.is_paged and lowered(made) == ["stow_bytes"]
    assert "read again and again" in notice(made, CONFIG)


def test_too_little_is_said() -> None:
    made = plan(400 * MB)
    assert not made.fits and made.options.n_ctx == 512
    assert "needs at least" in refusal(made) and "400 MB of memory are free" in refusal(made)


def test_a_limit_of_the_address_space_counts_the_file_too() -> None:
    made = plan(20 * GB, address=3 * GB)
    assert not made.fits and "this process's limit (ulimit) leaves 3.0 GB" in refusal(made)
    assert not plan(20 * GB, address=12 * GB).lowered


def test_a_device_gets_as_many_layers_as_fit() -> None:
    made = plan(20 * GB, devices=(DeviceFree("CUDA0", 4 * GB, 8 * GB),))
    assert made.fits and 0 < made.options.n_gpu_layers < most_layers(SEVEN)
    assert made.applied(CONFIG).n_gpu_layers == made.options.n_gpu_layers
    told = notice(made, replace(CONFIG, n_gpu_layers=29))
    assert "n_gpu_layers is" in told and "n_gpu_layers" not in notice(made, CONFIG), "-1 means as many as fit"
    roomy = plan(20 * GB, devices=(DeviceFree("CUDA0", 5 * GB), DeviceFree("CUDA1", 5 * GB)))
    assert roomy.options.n_gpu_layers == 29 and roomy.applied(CONFIG).n_gpu_layers == -1
    shared = plan(6 * GB, devices=(DeviceFree("MTL0", 6 * GB, is_shared=True),))
    assert shared.need.host + shared.need.device <= 6 * GB


def test_a_draft_counts() -> None:
    alone = plan(20 * GB)
    both = make_plan(SEVEN, CONFIG, Free(20 * GB), draft=replace(SEVEN, n_vocab=1000))
    assert 1.8 * alone.need.reported < both.need.reported < 2 * alone.need.reported


def test_after_a_refusal_less_is_tried_a_few_times() -> None:
    made = plan(20 * GB, devices=(DeviceFree("CUDA0", 8 * GB),))
    tries = list(following(SEVEN, CONFIG, made))
    assert 1 <= len(tries) <= 6
    sizes = [each.need.device for each in tries]
    assert sizes == sorted(sizes, reverse=True) and tries[-1].options.n_gpu_layers == 0


def test_settings_that_exclude_each_other() -> None:
    for kv_type in KV_TYPES:
        config = replace(CONFIG, kv_type=kv_type)
        assert usable_cache(config, SEVEN) == (config, "")
        usable, told = usable_cache(replace(config, flash_attention="off"), SEVEN)
        assert usable.kv_type == "f16" and ("needs flash attention" in told) == (kv_type != "f16")
    usable, told = usable_cache(replace(CONFIG, kv_type="q8_0"), replace(SEVEN, key_length=80))
    assert usable.kv_type == "f16" and "80 and 128 numbers" in told


# -- a smaller model


def test_a_smaller_model_of_the_family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("qwen2.5-coder-7b", "qwen2.5-coder-1.5b", "starcoder2-3b", "qwen2.5-coder-0.5b")
    entries = [store.Entry(registry.find(name), tmp_path / f"{name}.gguf", store.State.PRESENT, 1) for name in names]
    monkeypatch.setattr(store, "installed", lambda directory: entries)
    fits = {"qwen2.5-coder-1.5b", "starcoder2-3b", "qwen2.5-coder-0.5b"}

    def plan_of(path: Path, name: str) -> Plan:
        return plan(20 * GB if path.stem in fits else MB)

    large = Located(entries[0].path, names[0])
    found = that_fits(large, CONFIG, plan_of)
    assert (found.name, found.path) == (names[1], entries[1].path)
    assert f"{names[1]} is used instead" in found.notice and "needs at least" in found.notice
    assert that_fits(large, CONFIG, plan_of, lambda path: path == large.path) == large, "it is in memory already"
    fits.clear()
    assert that_fits(large, CONFIG, plan_of) == large, "whoever loads it says what is missing"
    assert that_fits(large, CONFIG, plan_of, lambda path: path == entries[3].path).name == names[3]
    by_path = Located(large.path, "a file")
    assert that_fits(by_path, CONFIG, plan_of) == by_path


def test_a_glance_without_native_code(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    look = machine(tmp_path, {"proc/cpuinfo": "flags : avx2\n"})
    plan_of = without_native_code(EngineConfig(), look)
    assert plan_of is not None and plan_of(tiny_models["llama"], "tiny").fits
    files = {"vendor": "0x1002\n", "class": "0x030000\n", "device": "0x744c\n"}
    at = "sys/bus/pci/devices/0000:01:00.0/"
    card = machine(tmp_path / "card", {"dev/kfd": "", **{at + name: text for name, text in files.items()}})
    assert without_native_code(EngineConfig(), card) is None
    assert without_native_code(EngineConfig(n_gpu_layers=0), card) is not None


# -- what is free, and what was taken


def test_what_is_free_here() -> None:
    free = look_free()
    assert 0 < free.ram <= free.total and free.devices == ()


def test_the_least_of_two_limits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    limits = {resource.RLIMIT_AS: 8 << 40, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limits[which], resource.RLIM_INFINITY))
    left = free_address()
    assert left is not None and 7 << 40 < left < 8 << 40
    limits[resource.RLIMIT_DATA] = 1
    assert free_address() == 0
    limits |= dict.fromkeys(limits, resource.RLIM_INFINITY)
    assert free_address() is None


def test_lines_of_the_log() -> None:
    assert parse(LINE) == Buffer("CPU_Mapped", "model", round(462.96 * 2**20))
    assert parse("llama_kv_cache:      CUDA0 KV buffer size =    96.00 MiB") == Buffer("CUDA0", "KV", 96 << 20)
    assert parse("llama_context:  CUDA_Host  output buffer size =     2.00 MiB") == Buffer("CUDA_Host", "output", 2 << 20)
    assert parse("sched_reserve:        CPU compute buffer size =   300.25 MiB") is not None
    assert parse("load: special tokens cache size = 23") is None
    told = [Buffer("CPU", "KV", 1), Buffer("CPU", "KV", 2), Buffer("CPU", "compute", 9), Buffer("CPU", "compute", 7)]
    assert settled(told) == (Buffer("CPU", "KV", 3), Buffer("CPU", "compute", 7))
    assert Buffer("CUDA_Host", "output", 1).is_on_host and not Buffer("CUDA0", "KV", 1).is_on_host


def test_a_file_written_now_is_read_in_full(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "t.gguf", n_layer=3)
    sizes = read_sizes(path)
    assert sizes.n_layers == 3 and 0 < path.stat().st_size - sizes.weight_bytes < 200_000
