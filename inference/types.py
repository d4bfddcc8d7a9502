"""Frozen values that cross the engine's border.

Owns the words of a request and of its answer. Refuses live objects: nothing here may be changed after it was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Priority(IntEnum):
    """Smaller runs first. What ranks below rides in no step of a request in front that has no byte yet (`scheduler`)."""

    TYPING = 0  # an automatic request: somebody types
    INVOKED = 1  # somebody asked for a completion and waits
    PREFETCH = 2  # prepared for what probably comes next
    BACKGROUND = 3

    @property
    def is_foreground(self) -> bool:
        """Somebody waits for it."""
        return self <= Priority.INVOKED


class FinishReason(StrEnum):
    STOP = "stop"  # end of generation, or a control token
    LENGTH = "length"  # n_max tokens beyond the cursor
    RESIDENT = "resident"  # a prefill-only request (n_max = 0) whose prompt is now in the cache in full
    CONTEXT = "context"  # the context window is full
    CANCELLED = "cancelled"
    DEADLINE = "deadline"  # its time is up; never said by the engine itself, but by what serves it to other processes
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. temperature 0 is greedy and ignores top_p, min_p and seed."""

    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0  # 1 = off; divides positive and multiplies negative logits of recent tokens
    repeat_last_n: int = 64
    seed: int = 0


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt to run.

    tokens: the prompt, at least one token. heal: bytes already typed that the first generated tokens must begin with.
    n_max: tokens that reach beyond the healed bytes; 0 = prefill only. n_candidates: most different texts to be told (see
    `TokenEvent`); fewer come where the model has no alternatives, or the engine no sequence to spare. first_line: the text ends
    with its first line. is_private: nothing of it is saved to disk. n_logprobs: tokens beyond the cursor, from the first one
    on, whose probability is told; each costs the engine a look at the whole vocabulary, 0.3 ms for 150,000 tokens on one core.
    """

    request_id: int
    tokens: tuple[int, ...]
    heal: bytes = b""
    n_max: int = 64
    sampling: SamplingParams = field(default_factory=SamplingParams)
    priority: Priority = Priority.TYPING
    n_candidates: int = 1
    first_line: bool = False
    is_private: bool = False
    previous: tuple[int, ...] = ()
    chunks: tuple[str, ...] = ()
    n_logprobs: int = 0


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Counts and times of one request so far.

    n_prompt = n_reused + n_evaluated (the last only in full once the prompt is resident). n_healing counts tokens chosen
    under the byte constraint, n_generated tokens that reach beyond the cursor (the last healing token may be both).
    n_steps: model steps the request rode in. n_rows: token positions put through the model for it, those of steps that were
    ended and of what was lost again included; the sum over all requests is that of `Counters`. Of several candidates the tokens
    and rows add up; a step that several rode in counts once. n_drafted: rows among them of tokens that were drafted,
    n_accepted of them stood. Times in ms, disjoint: queue
    (waiting, or admitted but in no step), prefill, decode. first_byte_ms: submission to the first byte beyond the cursor.
    """

    n_prompt: int = 0
    n_reused: int = 0
    n_evaluated: int = 0
    n_healing: int = 0
    n_generated: int = 0
    n_steps: int = 0
    n_rows: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    first_byte_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Ranked:
    """One candidate at the end. mean_logprob: of its tokens, each among those that were allowed; None: it has none."""

    candidate: int
    mean_logprob: float | None
    finish: FinishReason


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """News of a request: whole characters beyond the cursor, and perhaps its end. Exactly one event has a finish.

    candidate: whose text it is; 0 is the one that there would be alone, and the finish is that one's. ranking: with the finish,
    if several were asked for: those that are no duplicates, best first. logprob: mean logarithmic probability of the tokens
    that the text is of, each among those that go with what was typed; None where that was not asked for.
    """

    request_id: int
    text: str
    stats: GenerationStats
    finish: FinishReason | None = None
    error: str = ""
    candidate: int = 0
    ranking: tuple[Ranked, ...] = ()
    logprob: float | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """Token positions put through the model since the engine started, by role; aborted chunks count in full. drafted: of tokens
    that were drafted, whether they stood or not."""

    prompt: int = 0
    healing: int = 0
    generated: int = 0
    background: int = 0
    n_steps: int = 0
    drafted: int = 0


@dataclass(frozen=True, slots=True)
class DraftFigures:
    """What a source of drafts has done so far. n_steps: that had a draft of it. saved_ms: by the cost table, what its drafts
    cost taken off; negative: they lost so much. is_off: it would not pay at present, and is tried again now and then."""

    source: str
    n_drafted: int = 0
    n_accepted: int = 0
    n_steps: int = 0
    saved_ms: float = 0.0
    is_off: bool = False


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What the engine holds and has done, at one moment; figures that belong together may be a step apart.

    waiting, running: requests without and with a sequence, by priority (index = `Priority`). Resident sequences occupy
    n_used_cells of n_cells (one a token, shared ones counted once); stowed ones are kept in RAM. claims: how sequences were
    found for requests, by `ClaimKind`, with the reason where nothing was reused. saved: prompts on disk that this engine
    can put back, of at most save_limit_bytes. disk_misses: long prompts that were not there, saves_skipped: what was not
    written, by reason. why_not_saving: saved prompts are not used any more.
    """

    waiting: tuple[int, ...]
    running: tuple[int, ...]
    n_resident: int
    n_resident_tokens: int
    n_used_cells: int
    n_cells: int
    n_stowed: int
    n_stowed_tokens: int
    stowed_bytes: int
    stow_limit_bytes: int
    counters: Counters
    claims: tuple[tuple[str, int], ...]
    n_stows: int
    n_restores: int
    n_evictions: int
    n_set_aside: int
    n_aborted_steps: int
    n_saved: int = 0
    saved_bytes: int = 0
    save_limit_bytes: int = 0
    n_saves: int = 0
    written_bytes: int = 0
    saves_skipped: tuple[tuple[str, int], ...] = ()
    n_disk_hits: int = 0
    disk_misses: tuple[tuple[str, int], ...] = ()
    n_discarded: int = 0
    why_not_saving: str = ""
    drafts: tuple[DraftFigures, ...] = ()
    n_chunks: int = 0
    chunk_bytes: int = 0
    why_no_draft_model: str = ""
    n_threads: int = 1
    n_threads_most: int = 1


class ClaimKind(StrEnum):
    """Where a request's prompt was found. The last five: nothing was reused, and why."""

    RESIDENT = "resident"  # in a sequence of the cache, which the request goes on in
    SHARED = "shared"  # the beginning of another sequence, by copy
    RESTORED = "restored"  # in RAM, and put back into the cache
    NEW = "new"  # nothing known begins like it
    SHORT = "short"  # what is known of it is too little to be worth a copy
    REFUSED = "refused"  # it was in RAM, but the model did not take it back
    FULL = "full"  # it was in RAM, but others have the cells
    CUT = "cut"  # it was resident, but this model can't drop the part behind it


@dataclass(frozen=True, slots=True)
class Costs:
    """What this machine needs, in ms: one token of a prefill chunk, and a step of one row. on_cpu: no layer is on a GPU."""

    prefill_ms_per_token: float
    step_ms: float
    on_cpu: bool = True


Marker = tuple[int, str]  # a control token: its id, and its name in the vocabulary


@dataclass(frozen=True, slots=True)
class FimTokens:
    """How a model is asked to fill in the middle, with the ids of its vocabulary. BOS is not part of it.

    family: whose format it is. psm, spm: the order of a prompt as its publisher documents it: markers, and the names of the
    parts "header", "prefix" and "suffix"; None: the model was not trained that way. psm ends with the middle marker.
    header: what tells the model the file's path, in front of the prefix's marker: markers, and texts in which {repository} and
    {path} stand for names. title: the same as text at the prefix's beginning. lead: text in front of every prefix.
    """

    family: str
    psm: tuple[Marker | str, ...] | None
    spm: tuple[Marker | str, ...] | None = None
    header: tuple[Marker | str, ...] = ()
    title: str = ""
    lead: str = ""


class EngineError(Exception):
    """Something the user can act on. The message is one sentence that says what to do."""


class NoRoom(EngineError):
    """There was no memory for the model under these settings; with less asked for, it may do."""
