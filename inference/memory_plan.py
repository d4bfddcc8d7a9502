"""Whether a model fits into memory under the settings, and what is asked for less of if it does not.

Owns the rules, which are a pure function of shape, settings and free memory, in this order; the first that is enough ends it:

1. flash attention where it costs speed and nobody has set it (`inference.attention`): its buffer is smaller;
2. fewer sequences, halved down to one;
3. a shorter context, halved down to 2,048 tokens;
4. a cache of type q8_0, if the model's heads and the settings allow it (never q4_0: with it half as many completions of the
   0.5B are right, see docs/bench.md, so that it is only had where somebody sets it);
5. fewer layers on the device, down to none;
6. (a smaller model of the same family: that is `inference.smaller_model`'s, with `may_shrink_more` false);
7. a context of down to 512 tokens.

Then what was lowered is raised again as far as it still fits, the earliest rule first. What is kept in RAM beside the cache
gets what is left, and is never a reason to lower anything else. Where even the last step does not fit, the plan says so.

Refuses to read anything: see `memory_need` for sums, `memory_free` for the machine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from inference.attention import AUTO, OFF, ON
from inference.config import EngineConfig
from inference.memory_free import Free
from inference.memory_need import KV_TYPES, Need, Options, most_layers, need, why_not_quantized
from inference.models.gguf_sizes import ModelSizes

_LEAST_CTX, _LAST_CTX = 2048, 512
_GOOD_TYPES = KV_TYPES[:2]  # best first; those that cost hardly any quality
_CTX_STEP = 256
_MOST_TRIES = 5
_SPARE = 0.05  # of what is needed: for what is rounded, and for what others take meanwhile
_SPARE_BYTES = 32 << 20
_THREAD_ADDRESS = 80 << 20  # a thread's stack and its arena, most of which is never touched
_DEVICE_SPARE = 384 << 20  # a device's own context and its scratch space
_LIBRARY_ADDRESS = 128 << 20  # what is mapped when the first step runs


@dataclass(frozen=True, slots=True)
class Lowered:
    """A setting that is not what was asked for."""

    name: str
    asked: object
    got: object


@dataclass(frozen=True, slots=True)
class Plan:
    """asked: what the settings say, as far as the model allows. options: what is loaded. need, asked_need: of each.

    fits: there is room for `options`. is_paged: there is, but not for all pages of the model's file at once.
    """

    model: str
    asked: Options
    options: Options
    need: Need
    asked_need: Need
    free: Free
    fits: bool
    is_paged: bool = False

    @property
    def lowered(self) -> tuple[Lowered, ...]:
        names = ("flash_attention", "n_sequences", "n_ctx", "kv_type", "n_gpu_layers", "stow_bytes")
        pairs = [(name, getattr(self.asked, name), getattr(self.options, name)) for name in names]
        return tuple(Lowered(*pair) for pair in pairs if pair[1] != pair[2])

    def applied(self, config: EngineConfig) -> EngineConfig:
        """The settings with what the plan lowers; a count of layers is then a plain number."""
        o = self.options
        layers = config.n_gpu_layers if o.n_gpu_layers == self.asked.n_gpu_layers else o.n_gpu_layers
        return replace(
            config, n_ctx=min(config.n_ctx, o.n_ctx), n_sequences=o.n_sequences, kv_type=o.kv_type, n_gpu_layers=layers,
            stow_bytes=min(config.stow_bytes, o.stow_bytes), flash_attention=o.flash_attention,
        )  # fmt: skip


def make_plan(
    sizes: ModelSizes,
    config: EngineConfig,
    free: Free,
    features: Collection[str] = (),
    *,
    name: str = "",
    draft: ModelSizes | None = None,
    may_shrink_more: bool = True,
) -> Plan:
    """features: of the CPU. name: what to call the model. draft: a second model, loaded beside the first for as long a context
    and one sequence less. may_shrink_more: false = what is left after the last rule but one is for a smaller model.
    """
    judge = _Judge(sizes, config, free, features, draft, name or sizes.name)
    asked = _asked(sizes, config, free)
    plan = judge.plan(asked, asked)
    if plan.fits and not plan.is_paged:
        return plan
    paged = plan if plan.fits else None
    for options in _steps(sizes, config, asked, may_shrink_more=may_shrink_more):
        plan = judge.plan(asked, options)
        if plan.fits and not plan.is_paged:
            return judge.raised(plan)
        if plan.fits and paged is None:
            paged = plan
    # The file's pages come and go: slow, but it runs. It is no reason to take the context away.
    return plan if paged is None else paged


def following(sizes: ModelSizes, config: EngineConfig, plan: Plan, features: Collection[str] = ()) -> Iterator[Plan]:
    """What to try when llama.cpp finds no room for `plan` after all: a few steps further each time, since every try loads."""
    judge = _Judge(sizes, config, plan.free, features, None, plan.model)
    steps = list(_steps(sizes, config, plan.options, may_shrink_more=True))
    stride = max(1, -(-len(steps) // _MOST_TRIES))
    for options in reversed(steps[::-1][::stride]):  # the last one of all is among them
        yield judge.plan(plan.asked, options)


def _asked(sizes: ModelSizes, config: EngineConfig, free: Free) -> Options:
    n_ctx = min(config.n_ctx, sizes.n_ctx_train) if sizes.n_ctx_train else config.n_ctx
    most = most_layers(sizes) if free.devices else 0
    layers = most if config.n_gpu_layers < 0 else min(config.n_gpu_layers, most)
    return Options(
        n_ctx=n_ctx,
        n_sequences=config.n_sequences,
        kv_type=config.kv_type,
        flash_attention=config.flash_attention,
        n_gpu_layers=layers,
        stow_bytes=config.stow_bytes if config.n_stowed else 0,
        n_threads=config.n_threads,
    )


def _steps(sizes: ModelSizes, config: EngineConfig, start: Options, *, may_shrink_more: bool) -> Iterator[Options]:
    """One after the other, each with all of those before."""
    at = start
    if at.flash_attention == AUTO and not at.is_flash:
        at = replace(at, flash_attention=ON)
        yield at
    while at.n_sequences > 1:
        at = replace(at, n_sequences=max(1, at.n_sequences // 2))
        yield at
    while at.n_ctx > _LEAST_CTX:
        at = replace(at, n_ctx=max(_LEAST_CTX, at.n_ctx // 2))
        yield at
    for kv_type in _GOOD_TYPES[KV_TYPES.index(at.kv_type) + 1 :]:
        if config.flash_attention != OFF and sizes.has_cache and not why_not_quantized(sizes, kv_type):
            at = replace(at, kv_type=kv_type)
            yield at
    while at.n_gpu_layers > 0:
        at = replace(at, n_gpu_layers=at.n_gpu_layers - 1)
        yield at
    while may_shrink_more and at.n_ctx > _LAST_CTX:
        at = replace(at, n_ctx=max(_LAST_CTX, at.n_ctx // 2))
        yield at


@dataclass(frozen=True, slots=True)
class _Judge:
    sizes: ModelSizes
    config: EngineConfig
    free: Free
    features: Collection[str]
    draft: ModelSizes | None
    name: str

    def plan(self, asked: Options, options: Options) -> Plan:
        """With as much kept in RAM as is left."""
        bare = self._need(replace(options, stow_bytes=0))
        room = self._room(bare, bare.host)
        is_paged = room < 0
        fits = not is_paged or self._room(bare, bare.host_alone) >= 0
        if self.free.devices and self._device_room(bare) < 0:
            fits = False
        stowed = max(0, min(options.stow_bytes, room))
        options = replace(options, stow_bytes=stowed)
        return Plan(self.name, asked, options, self._need(options), self._need(asked), self.free, fits, is_paged and fits)

    def raised(self, plan: Plan) -> Plan:
        """What an early rule took may not have to be taken any more, once a later one has given room."""
        for higher in (_own_attention, _more_sequences, _longer, _better_type):
            for options in higher(plan.asked, plan.options):
                found = self.plan(plan.asked, replace(options, stow_bytes=plan.asked.stow_bytes))
                if found.fits and not found.is_paged:
                    plan = found
                    break
        return plan

    def _need(self, options: Options) -> Need:
        whole = need(self.sizes, options, self.features)
        if self.draft is None:
            return whole
        beside = replace(options, n_sequences=max(1, options.n_sequences - 1), stow_bytes=0, kv_type="f16")
        layers = most_layers(self.draft) if options.n_gpu_layers else 0
        return whole + need(self.draft, replace(beside, n_gpu_layers=layers), self.features)

    def _room(self, wanted: Need, host: int) -> int:
        """Bytes that are left of RAM, of which `host` are needed, and of address space, which the file takes in any case;
        negative = too few."""
        spare = int(host * _SPARE) + _SPARE_BYTES
        shared = wanted.device if self.free.is_shared else 0
        rooms = [self.free.ram - host - shared - spare] if self.free.ram else []
        if self.free.address is not None:
            rooms.append(self._address_room(wanted))
        return min(rooms, default=1 << 62)

    def _address_room(self, wanted: Need) -> int:
        assert self.free.address is not None
        threads = max(1, self.config.n_threads or _n_cpus()) * _THREAD_ADDRESS
        return self.free.address - wanted.host - int(wanted.host * _SPARE) - _SPARE_BYTES - _LIBRARY_ADDRESS - threads

    def _device_room(self, wanted: Need) -> int:
        if not wanted.device:
            return 0
        spare = int(wanted.device * _SPARE) + _DEVICE_SPARE * len(self.free.devices)
        return self.free.device - wanted.device - spare


def _own_attention(asked: Options, got: Options) -> Iterator[Options]:
    if got.flash_attention != asked.flash_attention:
        yield replace(got, flash_attention=asked.flash_attention)


def _more_sequences(asked: Options, got: Options) -> Iterator[Options]:
    """The most first."""
    for n in range(asked.n_sequences, got.n_sequences, -1):
        yield replace(got, n_sequences=n)


def _longer(asked: Options, got: Options) -> Iterator[Options]:
    yield replace(got, n_ctx=asked.n_ctx)
    for n in range((asked.n_ctx - 1) // _CTX_STEP * _CTX_STEP, got.n_ctx, -_CTX_STEP):
        yield replace(got, n_ctx=n)


def _better_type(asked: Options, got: Options) -> Iterator[Options]:
    for kv_type in KV_TYPES[KV_TYPES.index(asked.kv_type) : KV_TYPES.index(got.kv_type)]:
        yield replace(got, kv_type=kv_type)


def _n_cpus() -> int:
    from inference.measure import usable_cpus

    return usable_cpus()
