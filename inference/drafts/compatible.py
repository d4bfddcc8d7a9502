"""Whether one model may draft for another: the same ids have to mean the same.

Pure, some ms, asked once at load. Refuses with half a sentence that says what differs.
"""

from __future__ import annotations

from inference.backend import Vocab

_MOST_PADDING = 256  # tokens that no text has, by which two files of one family differ
_SAMPLE = (
    b"def area(width: int) -> int:\n\treturn 2 * width  # caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac\r\n\n    x = {'a': [1.5e3]}\n"
)


def why_not_compatible(target: Vocab, draft: Vocab) -> str:
    """ "" if the draft's ids are the target's. More tokens at one's end are no difference, if there are few of them."""
    ours, theirs = target.pieces, draft.pieces
    n = min(len(ours), len(theirs))
    if abs(len(ours) - len(theirs)) > _MOST_PADDING:
        return f"it has {len(theirs):,} tokens, the model {len(ours):,}"
    if target.pre_type != draft.pre_type:
        return f"it splits text in another way ({draft.pre_type or 'none'}, the model {target.pre_type or 'none'})"
    if target.bos != draft.bos:
        return "it begins sequences with another token"
    if _markers(target) != _markers(draft):
        return "its tokens for filling in the middle are others"
    for token in range(n):
        if ours[token] != theirs[token]:
            return f"its token {token} is another text"
    if {t for t in target.stop_tokens if t < n} != {t for t in draft.stop_tokens if t < n}:
        return "its control tokens are others"
    if target.encode(_SAMPLE) != draft.encode(_SAMPLE):
        return "it makes other tokens of the same text"
    return ""


def _markers(vocab: Vocab) -> object:
    fim = vocab.fim
    return None if fim is None else (fim.psm, fim.spm)
