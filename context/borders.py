"""Where a text may be cut so that the tokens of the pieces, joined, are the tokens of the whole.

Owns one rule per family of pre-tokenizers, each with the reason why it holds, and the check that a vocabulary keeps it. A
border depends on the text right around it and on nothing else. Where nothing can be shown there is none. A place that is missed
costs a longer piece, never a wrong token, so what is a blank or a letter is asked of no table but decided narrowly.

The rules of the pre-tokenizers are those of llama.cpp (`src/llama-vocab.cpp`, `src/unicode.cpp`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# "qwen2" and its like split with one regular expression, left to right, no look-behind:
#   contractions | [^\r\n\p{L}\p{N}]?\p{L}+ | \p{N} | ` ?[^\s\p{L}\p{N}]+[\r\n]*` | \s*[\r\n]+ | \s+(?!\S) | \s+
# and merges never cross a split. ("llama-bpe" takes up to three digits at once, "qwen35" counts accents as letters: neither
# touches a blank.) Take a place right after a CR or LF, followed by whitespace without CR and LF (or none) and then by
# something that is not whitespace. The match that holds this line break ends exactly there, whatever stands around:
#   - only two branches can hold a line break that a later one in the same whitespace run does not follow: the punctuation
#     branch, whose [\r\n]* stops there, and \s*[\r\n]+, which reaches for the last CR or LF of the run: this one;
#   - \s+(?!\S) and \s+ come after it, and it matches whenever the run still holds a line break.
# So the left side alone ends with the same match, and the right side alone begins like the rest of the whole.
# The run may hold blanks and tabs only, and what follows must begin with a byte with which no Unicode whitespace begins (it has
# lead bytes C2, E1, E2 and E3 80, and controls below 21; EF is left out for U+FEFF).
_AFTER_BREAK = re.compile(rb"(?<=[\r\n])(?=[ \t]*(?:[!-~\xc3-\xe0\xe4-\xee\xf0-\xf4]|\xe3[\x81-\xbf]))")

# The others split so that no match holds something that is not whitespace and then whitespace. Take a place between a printable
# ASCII character that is no blank and a LF:
#   - "starcoder", "refact", "gpt-2" and their like: digits one by one (but for "gpt-2"), then
#     's|'t|'re|… | ` ?\p{L}+` | ` ?\p{N}+` | ` ?[^\s\p{L}\p{N}]+` | \s+(?!\S) | \s+. A match begins with at most one blank, or
#     is whitespace only. Whatever matches the character ends with it, in the whole as in the left side, since nothing behind it
#     is asked for; the whitespace run begins at the place, and what it is cut into depends on what follows.
#   - "deepseek-coder" and "deepseek-llm" first take every CR and LF alone, so that no later rule sees across one. (A cut behind
#     the line break would do for the rules; but very long runs of blanks or of other characters are tokenized in parts, counted
#     from the run's beginning, and a run of either kind begins or ends here.)
#   - "default" and "" of byte-pair vocabularies: punctuation runs, then as "gpt-2", then digits.
# SentencePiece vocabularies (they are called "default" too, or nothing) split nothing: two neighbours merge if both together
# are a token. If no token holds another character and then a LF, no merge crosses the place: the symbols on either side never
# meet, and what one side does is decided by its own symbols and their scores alone. (Llama's has tokens like `;\r`, so a CR is
# no border.)
_BEFORE_BREAK = re.compile(rb"(?<=[!-~])(?=\n)")

_RULES = {
    **dict.fromkeys(("qwen2", "llama-bpe", "llama3", "llama-v3", "qwen35", "stablelm2", "deepseek-r1-qwen"), _AFTER_BREAK),
    **dict.fromkeys(("starcoder", "refact", "gpt-2", "codeshell", "smollm", "command-r", "mellum", "mellum2"), _BEFORE_BREAK),
    **dict.fromkeys(("deepseek-coder", "deepseek-llm", "default", ""), _BEFORE_BREAK),
}
_NEEDS_PIECES = frozenset({"default", ""})


def border_rule(pre_type: str, pieces: Sequence[bytes] = ()) -> re.Pattern[bytes] | None:
    """A pattern of empty matches at borders of a text in prompt form; None: a text is not to be cut.

    pre_type: name of the pre-tokenizer (`tokenizer.ggml.pre`). pieces: the tokens of the vocabulary as bytes. Those that it
    has added by hand are found before anything is split; where one could lie across a border, the rule does not hold.
    SentencePiece vocabularies are cut only if their pieces are known.
    """
    rule = _RULES.get(pre_type)
    if rule is None or (pre_type in _NEEDS_PIECES and not pieces):
        return None
    return None if any(_may_cross(rule, piece) for piece in pieces) else rule


def _may_cross(rule: re.Pattern[bytes], piece: bytes) -> bool:
    """Could a border lie inside a token?"""
    if b"\n" not in piece and b"\r" not in piece:
        return False
    # what stands around it may be anything: a character on either side is the most that a rule can ask for
    return any(0 < match.start() - 1 < len(piece) for match in rule.finditer(b"x" + piece + b"x"))
