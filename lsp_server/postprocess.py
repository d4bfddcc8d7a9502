"""Pure text rules between what the model generated and what is offered.

Text is in prompt form (line ends are `\\n`) and begins at the cursor.
"""

from __future__ import annotations

CLOSERS = {")": "(", "]": "[", "}": "{"}
QUOTES = "\"'`"
BRACKETS = "()[]{}"


def is_single_line(before: str) -> bool:
    """A place with more than blanks before the cursor on its line is completed by one line."""
    return bool(before.strip())


def trim(text: str, *, single_line: bool, is_whole: bool, after: str) -> str:
    """The part of a generation worth offering.

    is_whole: the model ended it itself (not a limit or a deadline). after: the document behind the cursor.
    """
    if single_line:
        return text.split("\n", 1)[0].rstrip()
    lines = text.split("\n")
    if not is_whole and len(lines) > 1 and lines[-1].strip():
        lines.pop()  # a line cut by a limit: what follows is offered when it is complete
    lines = _without_following(_without_repeats(lines), after)
    body = "\n".join(lines).rstrip()
    ends_file = not after and is_whole and text.endswith("\n") and lines == text.split("\n")
    return body + "\n" if body and ends_file else body


def _without_repeats(lines: list[str]) -> list[str]:
    """Three equal lines in a row: a loop. The first of them stays."""
    for i in range(len(lines) - 2):
        if lines[i].strip() and lines[i] == lines[i + 1] == lines[i + 2]:
            return lines[: i + 1]
    return lines


def _without_following(lines: list[str], after: str) -> list[str]:
    """Stop in front of a line that stands behind the cursor already."""
    following = next((line for line in after.split("\n")[1:] if line.strip()), "").rstrip()
    if len(following.strip()) < 3:
        return lines
    for i, line in enumerate(lines):
        if i and line.rstrip() == following:
            return lines[:i]
    return lines


def settle(text: str, rest: str) -> tuple[str, int]:
    """Fit an offered text to the rest of the cursor's line.

    Returns the text to insert and how many characters of `rest` it replaces: closers and quotes that the text has made itself
    (an editor puts them there at every opening bracket), or a tail that it repeats.
    """
    if not rest or not text:
        return text, 0
    tail = rest.rstrip()
    if text.endswith(tail) and any(char.isalnum() for char in tail):
        return text, len(tail)
    unmatched = _unmatched_closers(text)
    n = 0
    for char in tail:
        while unmatched and unmatched[0] in QUOTES and char != unmatched[0]:
            unmatched.pop(0)  # an apostrophe, or a string that was open before
        if unmatched and char == unmatched[0]:
            unmatched.pop(0)
        elif not (char.isspace() and unmatched):
            break
        n += 1
    if n < len(tail) and text.endswith(tail) and not any(c in BRACKETS for c in tail[n:]):
        n = len(tail)  # what ends the statement behind the closers
    return text, len(tail[:n].rstrip())


def _unmatched_closers(text: str) -> list[str]:
    """Closers and quotes in `text` that close something opened before it, in order."""
    stack: list[str] = []
    out: list[str] = []
    quote = ""
    escaped = False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif quote:
            if char == quote:
                quote = ""
        elif char in QUOTES:
            # an odd number of this quote from here on the line: the first one closes a string that is open already
            line = text[i:].split("\n", 1)[0]
            if line.count(char) % 2 and not stack and not out:
                out.append(char)
            else:
                quote = char
        elif char in CLOSERS.values():
            stack.append(char)
        elif char in CLOSERS:
            if stack and stack[-1] == CLOSERS[char]:
                stack.pop()
            elif not stack:
                out.append(char)
    return out
