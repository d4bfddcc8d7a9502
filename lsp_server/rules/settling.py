"""From what was said to what is offered: the last rules, when nothing more is to come.

Owns their order. Each takes text away, or changes its blanks; none adds a word. Refuses the stream (`judge`).
"""

from __future__ import annotations

from dataclasses import replace

from lsp_server.rules import fitting, indentation
from lsp_server.rules.draft import Draft
from lsp_server.rules.leaks import half_marker
from lsp_server.rules.loops import equal_lines, tail_loop
from lsp_server.rules.place import Place
from lsp_server.rules.settled import COMPLETE, ENDS_HERE, NOTHING_YET, ONLY_BLANKS, REASONS, Said, Settled
from lsp_server.rules.stumps import without_stump


def settle(said: Said, place: Place, off: frozenset[str] = frozenset()) -> Settled:
    """What of it may be offered, as far as text alone tells."""
    draft = Draft(place, off, said.text, len(said.text))
    if said.stopped:
        draft.rules.append(said.stopped)
    _trim_end(draft, said)
    ends_file = _ends_file(draft, said)
    ends_line = place.is_in_front and said.text.startswith("\n", len(draft.text.rstrip()))
    whole = draft.text
    _trim_beginning(draft)
    n_head = len(whole) - len(draft.text) if whole.endswith(draft.text) else 0
    n_replaced = _fit(draft, ends_file) if draft.text.strip() else 0
    if ends_line and draft.text and not n_replaced:
        draft.text += "\n" + place.line  # what stands behind the cursor stays a line of its own
    rules = tuple(dict.fromkeys(draft.rules))
    if not draft.text.strip() or draft.text == place.rest[:n_replaced]:
        return Settled("", 0, _why(said, draft), rules, draft.n_said)
    mean = _mean([p for end, p in said.tokens if end <= draft.n_said] or [p for _, p in said.tokens[:1]])
    return Settled(draft.text, n_replaced, "", rules, draft.n_said, mean, mean, n_head=n_head)


def without_head(settled: Settled, head: str) -> Settled | None:
    """What is left of it once its beginning was typed; None if it does not begin so, or says no more."""
    if not settled.text.startswith(head) or len(settled.text) == len(head):
        return None
    return replace(settled, text=settled.text[len(head) :])


def _trim_end(draft: Draft, said: Said) -> None:
    """What a limit has left at the end, and what stands below."""
    if said.is_cut and draft.is_on("marker") and (half := half_marker(draft.text)) is not None:
        draft.keep("marker", half)
    if "marker" in draft.rules:
        draft.keep("marker", _without_open_string(draft))
    if said.is_cut:
        if draft.is_on("half-character"):
            draft.keep("half-character", len(draft.text.rstrip("\u200d")))
        if draft.is_on("period") and (loop := tail_loop(draft.text)) is not None:
            draft.keep("period", loop.first_end)
        at = draft.text.rfind("\n") if "period" not in draft.rules else -1
        is_block = not draft.place.single_line and at >= 0 and bool(draft.text[:at].strip())
        if draft.is_on("partial-line") and is_block and draft.text[at:].strip():
            draft.keep("partial-line", at)
    lines = draft.text.split("\n")
    if draft.is_on("below") and said.stopped in ("", "scope") and (n := fitting.n_below(draft.place, lines)):
        draft.keep("below", max(0, sum(len(line) + 1 for line in lines[:-n]) - 1))
        lines = draft.text.split("\n")
    if draft.is_on("equal-lines") and not said.stopped and equal_lines(lines):
        kept = [i for i, line in enumerate(lines) if line.strip()][-3]
        draft.keep("equal-lines", sum(len(line) + 1 for line in lines[: kept + 1]) - 1)


def _without_open_string(draft: Draft) -> int:
    """How much is left without the lines of a string that the text opens and never closes, since the model has left it: all, if
    there is none."""
    end = len(draft.text)
    if draft.place.scanner().inside:
        return end  # it was open before
    while end > 0:
        scanner = draft.place.scanner()
        scanner.feed_all(draft.text[:end])
        if scanner.inside != "string":
            break
        end = max(draft.text.rfind("\n", 0, end), 0)
    return end


def _ends_file(draft: Draft, said: Said) -> bool:
    """Does the text end the file, with a line break of its own?"""
    place = draft.place
    is_all = said.is_whole and not said.stopped and draft.text == said.text
    return is_all and place.is_end and not place.after and not place.single_line and draft.text.endswith("\n")


def _trim_beginning(draft: Draft) -> None:
    """What stands before the cursor, and blanks too many."""
    if draft.is_on("echo") and (n := fitting.n_echoed(draft.place, draft.text)):
        draft.text = draft.text[n:]
        draft.rules.append("echo")
    if draft.is_on("indentation"):
        text = indentation.adapted(draft.place, draft.text)
        if text != draft.text:
            draft.text = text
            draft.rules.append("indentation")


def _fit(draft: Draft, ends_file: bool) -> int:
    """Blanks at the end, a stump, and the rest of the line; how much of that is replaced."""
    place = draft.place
    body = draft.text.rstrip()
    if draft.rules[:1] in (["period"], ["counter"]):
        body = body.rstrip(", |+")  # what would lead over to the next copy
    if draft.is_on("stump"):
        stump = without_stump(place, body)
        if stump != body:
            draft.rules.append("stump")
            body, ends_file = stump, False
    blanks = draft.text[len(body) :]
    if body and not blanks.strip() and "\n" not in blanks and _is_word(place.rest[:1]):
        body += blanks  # a word follows
    draft.n_said -= len(draft.text) - len(body)
    draft.text = body + "\n" if body and ends_file else body
    if not body:
        return 0
    return draft.fit()


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _mean(logprobs: list[float]) -> float | None:
    return sum(logprobs) / len(logprobs) if logprobs else None


def _why(said: Said, draft: Draft) -> str:
    """Why nothing is offered."""
    if not said.text.strip():
        if said.stopped == "line" or (draft.place.single_line and said.text.startswith("\n")):
            return COMPLETE
        if said.stopped:
            return REASONS.get(said.stopped, ONLY_BLANKS)
        if not said.text:
            return ENDS_HERE if said.is_whole else NOTHING_YET
        return ONLY_BLANKS
    for rule in reversed(draft.rules):
        if rule in REASONS:
            return REASONS[rule]
    return ONLY_BLANKS
