"""How families of models are asked to fill in the middle: their markers, in their publishers' order.

Owns the table and the choice of a family from a vocabulary. Refuses to know token ids or files: what a vocabulary holds is for
`inference.llama.fim` to find out, and to test.

A format is what the publisher documents; where that says nothing of a file's path, no path is sent.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """A format. Names of control tokens stand in angle or square brackets as the vocabulary spells them.

    psm, spm: orders of a prompt, as in `inference.types.FimTokens`, with names instead of ids; () = not trained that way.
    needs: names that a vocabulary must have beside those of the orders to be of this family. called: words of which one must
    be in the model's name, where vocabularies alone do not tell families apart. source: where the format is documented.
    placement: where pieces of other files stand: "comments", in front of the prefix, or "files", each one of its own in the
    repository's format, which the header must begin. Chosen by measuring; comments where nobody has.
    """

    name: str
    psm: tuple[str, ...]
    spm: tuple[str, ...]
    source: str
    header: tuple[str, ...] = ()
    title: str = ""
    lead: str = ""
    needs: tuple[str, ...] = ()
    called: tuple[str, ...] = ()
    placement: str = "comments"

    @property
    def markers(self) -> tuple[str, ...]:
        """Names of the control tokens of its orders and its header, each once."""
        entries = (*self.psm, *self.spm, *self.header)
        return tuple(dict.fromkeys(entry for entry in entries if is_marker(entry)))


PARTS = ("header", "prefix", "suffix")


def is_marker(entry: str) -> bool:
    """Whether an entry of an order or header is a control token's name, not a part or a text."""
    return entry not in PARTS and "{" not in entry


def _psm(prefix: str, suffix: str, middle: str) -> tuple[str, ...]:
    return ("header", prefix, "prefix", suffix, "suffix", middle)


def _spm(prefix: str, suffix: str, middle: str) -> tuple[str, ...]:
    return ("header", suffix, "suffix", prefix, "prefix", middle)


def _spm_behind_middle(prefix: str, suffix: str, middle: str) -> tuple[str, ...]:
    """The variant in which the prefix and what fills the gap are one text (Bavarian et al. 2022, arXiv 2207.14255, SPM)."""
    return ("header", prefix, suffix, "suffix", middle, "prefix")


_BARRED = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
_PLAIN = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
_HYPHENED = ("<fim-prefix>", "<fim-suffix>", "<fim-middle>")
_DEEPSEEK = ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")
_LLAMA = ("▁<PRE>", "▁<SUF>", "▁<MID>")
_SEED = ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>")

# In this order: the first whose names the vocabulary has.
FAMILIES: tuple[Family, ...] = (
    Family(
        "qwen2.5-coder",
        _psm(*_BARRED),
        (),
        "Qwen2.5-Coder Technical Report, arXiv 2409.12186, sections 2 and 3",
        header=("<|repo_name|>", "{repository}\n", "<|file_sep|>", "{path}\n"),
        # arguments of calls into another file, right of 50 (0.5B) and of 40 (1.5B): 18 and 16 without, 20 and 21 as files of
        # their own, 22 and 21 as comments
        placement="comments",
    ),
    Family(
        "codegemma",
        _psm(*_BARRED),
        (),
        "CodeGemma: Open Code Models Based on Gemma, arXiv 2406.11409, section 3",
        header=("{path}\n",),
        needs=("<|file_separator|>",),
    ),
    Family("granite-4", _psm(*_BARRED), (), "model card of Granite 4.0", called=("granite",)),
    Family(
        "mellum",
        (),
        _spm(*_PLAIN),
        "model card of Mellum-4b-base",
        header=("<filename>", "{path}\n"),
        called=("mellum",),
    ),
    Family(
        "starcoder2",
        _psm(*_PLAIN),
        _spm_behind_middle(*_PLAIN),
        "StarCoder 2 and The Stack v2, arXiv 2402.19173, section 5.1",
        header=("<repo_name>", "{repository}", "<file_sep>"),
        title="{path}\n",
    ),
    Family("granite", _psm(*_PLAIN), (), "model card of Granite code models", called=("granite",)),
    Family(
        "starcoder",
        _psm(*_PLAIN),
        _spm_behind_middle(*_PLAIN),
        "StarCoder: may the source be with you, arXiv 2305.06161, section 3.1",
        needs=("<filename>", "<reponame>"),
    ),
    Family("stable-code", _psm(*_PLAIN), (), "model card of stable-code-3b"),
    Family(
        "santacoder",
        _psm(*_HYPHENED),
        _spm_behind_middle(*_HYPHENED),
        "SantaCoder: don't reach for the stars, arXiv 2301.03988, section 4.2",
    ),
    Family(
        "deepseek-coder",
        _psm(*_DEEPSEEK),
        (),
        "README of DeepSeek-Coder: code insertion, and repository level code completion",
        title="#{path}\n",
    ),
    # SentencePiece puts a blank in front of a text; the publishers' tokenizers do so for the prefix, and not for the suffix.
    Family("codellama", _psm(*_LLAMA), (), "Code Llama, arXiv 2308.12950, section 2.3", lead=" "),
    Family(
        "codestral",
        (),
        ("header", "[SUFFIX]", "suffix", "[PREFIX]", "prefix"),
        "mistral-common: encode_fim of the tokenizers v2 and v3",
        title="+++++ {path}\n",
        lead=" ",
    ),
    Family("seed-coder", (), _spm(*_SEED), "Seed-Coder, arXiv 2506.03524, section 3.3"),
)


def recognize(names: Collection[str], model_name: str) -> Family | None:
    """The family of a vocabulary whose control tokens have these names; None: it has no known way to fill in the middle.

    model_name: as the file gives it; it tells families apart that share a vocabulary's names.
    """
    called = model_name.lower()
    for family in FAMILIES:
        if family.called and not any(word in called for word in family.called):
            continue
        if all(name in names for name in (*family.markers, *family.needs)):
            return family
    return None


def placement_of(name: str) -> str:
    """Where pieces of other files stand in a prompt of this family."""
    return next((family.placement for family in FAMILIES if family.name == name), "comments")
