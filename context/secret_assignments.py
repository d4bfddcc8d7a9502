"""Secrets by their names: what is assigned to, passed as or written behind the name of a password, a key or a token.

Owns the ways in which languages, settings files, command lines and connection strings write a name and its value. Whether the
name and the value are a secret's is judged by `context.secret_values`. Walks the text once, from name to name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from context.secret_values import Weight, is_expression, is_secret, weight_of

Found = tuple[int, int, str]  # start, end, kind

_KINDS = {Weight.PASSWORD: "password", Weight.SECRET: "secret", Weight.KEY: "key"}
_LONGEST_NAME = 64
_LONGEST_VALUE = 4096  # within which the closing quote is looked for
_MOST_PARTS = 64  # of one string written in pieces

_STEM = re.compile(r"pass|pwd|pw|phrase|secret|token|key|cred|auth|bearer|mnemonic", re.IGNORECASE)
_NAME_TAIL = re.compile(r"[\w$-]*+", re.ASCII)
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$-")
# a closing quote, an index; a type; the sign between name and value
_BETWEEN = re.compile(
    r"""(?P<close>\\{0,3}["'`])?+\]?+(?:\[[0-9]{0,6}\])?+
    (?P<type>[ \t]{0,4}:[ \t]{0,4}[&A-Za-z_][^=\r\n"'`(){};]{0,60}?(?==)
        |[ \t]{1,4}(?:string|\[\]byte|str|String)[ \t]{0,4}(?==))?
    (?P<blank>[ \t]{0,24}+)(?P<sign>===?|!==?|:=|=>|=|:|,|\(|>(?=[^<>=\s])|value[ \t]{0,4}=(?=[ \t]{0,4}["']))?""",
    re.VERBOSE,
)
_OPENING = re.compile(r"\s{0,80}+(?:\(\s{0,80}+)?[A-Za-z@$]{0,2}+#{0,2}+(\\{0,3}+(?:\"\"\"|'''|[\"'`]))")
_NEXT_PART = re.compile(r"\s{0,80}+(?:\+|\.\.|\.|&)?\s{0,80}+[A-Za-z@$]{0,2}+(\\{0,3}+[\"'`])")
_SECOND = re.compile(r",[ \t]{0,8}+[bru]?([\"'])")
_RUN = re.compile(r"[^\s\"'`]+")
_PIECE = re.compile(r"[^\s\"'`;&<>]+")
_LINE = re.compile(r"[^\r\n]*")
_COMMENT = re.compile(r"[ \t]+(?:#|//|;).*")
_BEFORE_SETTING = re.compile(r"[ \t]*(?:(?:#|//|;|\*|-)+[ \t]*)?(?:[\w.-]+[.:])?[\"']?")
_BEFORE_VARIABLE = re.compile(
    r"(?:.*[\s\"'])?(?:export|set|setx|env|ENV|ARG|-e|--env|--build-arg|-D)[ \t=]*"
    r"|[ \t]*(?:-[ \t]+)?[\"']?|.*[\s\"'][A-Z_0-9]+=\S+[ \t]+"
)
_BEFORE_PIECE = re.compile(r".*(?:[;?&][ \t]?|\b[A-Za-z_]+=[^\s,;()]+[ \t])", re.DOTALL)
_BEFORE_NETRC = re.compile(r"(?:.*[ \t])?(?:machine|login)[ \t]+\S+[ \t]+|[ \t]*")
_BEFORE_ENV = re.compile(r"[ \t]*ENV[ \t]+")
_CALL = re.compile(r"[A-Za-z_][\w.]*[\[(].*[\])]")
_BAR = re.compile(r"[ \t]*[|>][+-]?[0-9]?[ \t]*\r?")
_SETTING = re.compile(
    r"(?:-[ \t]++)?+(?:export[ \t]++)?+[\"']?+[\w./-]++[\"']?+[ \t]*+[:=](?![:=])[^({]*+|-[ \t].*|\[[^\[\]]*\]|---.*"
)


def named_secrets(text: str) -> Iterator[Found]:
    """Values under names, in the order of the names; they may overlap what other questions find."""
    is_settings: bool | None = None
    at = 0
    while (stem := _STEM.search(text, at)) is not None:
        start, low = stem.start(), max(at, stem.start() - _LONGEST_NAME)
        while start > low and text[start - 1] in _NAME_CHARS:
            start -= 1
        tail = _NAME_TAIL.match(text, stem.end())
        end = tail.end() if tail is not None else stem.end()
        while text[end - 1] == "-":
            end -= 1
        at = max(end, stem.end())
        if at - start > 2 * _LONGEST_NAME:
            continue
        weight = weight_of(text[start:end])
        if weight is Weight.NONE:
            continue
        between = _BETWEEN.match(text, end)
        if between is None:
            continue
        found = list(_quoted(text, between, weight, text[start:end]))
        if not found:
            if is_settings is None:
                is_settings = _is_settings(text)
            found = list(_unquoted(text, start, end, between, weight, is_settings))
        yield from found
        if found:
            at = max(at, found[-1][1])


def _quoted(text: str, between: re.Match[str], weight: Weight, name: str) -> Iterator[Found]:
    sign, close = between["sign"], between["close"]
    if sign == ">":
        return
    if sign is None and (weight is not Weight.PASSWORD or close is not None or not between["blank"]):
        return
    if sign == "," and close is None:
        return
    opening = _OPENING.match(text, between.end())
    if opening is None:
        return
    if "(" in opening[0] and name.lower().endswith("auth"):  # a pair: who, and the password
        yield from _pair(text, opening)
        return
    is_indirect = sign is None or sign in ("==", "===", "!=", "!==", ",", "(")
    spans: list[tuple[int, int]] = []
    part: re.Match[str] | None = opening
    while part is not None and len(spans) < _MOST_PARTS:
        end = _string_end(text, part.end(), part[1])
        spans.append((part.end(), end))
        after = end + len(part[1]) if text.startswith(part[1], end) else len(text)
        part = _NEXT_PART.match(text, after) if sign not in (",", None) else None
    if is_secret("".join(text[start:end] for start, end in spans), weight, is_indirect=is_indirect):
        yield from ((start, end, _KINDS[weight]) for start, end in spans if end > start)


def _pair(text: str, opening: re.Match[str]) -> Iterator[Found]:
    end = _string_end(text, opening.end(), opening[1])
    second = _SECOND.match(text, end + len(opening[1]))
    if second is not None:
        last = _string_end(text, second.end(), second[1])
        if is_secret(text[second.end() : last], Weight.PASSWORD, is_indirect=False):
            yield second.end(), last, _KINDS[Weight.PASSWORD]


def _string_end(text: str, start: int, quote: str) -> int:
    """Where a string's content ends: at its quote or its line's end; if both are far away, at its first blank."""
    limit = min(len(text), start + _LONGEST_VALUE)
    line = text.find("\n", start, limit)
    limit = line if line >= 0 else limit
    at = text.find(quote, start, limit)
    while at > start and quote[0] != "\\" and _is_escaped(text, start, at):
        at = text.find(quote, at + 1, limit)
    if at >= 0:
        return at
    if line >= 0 or limit == len(text):
        return limit - (text[limit - 1 : limit] == "\r" and limit > start)
    run = _RUN.match(text, start)
    return run.end() if run is not None else start


def _is_escaped(text: str, start: int, at: int) -> bool:
    n = 0
    while at - n > start and text[at - n - 1] == "\\":
        n += 1
    return n % 2 == 1


def _unquoted(text: str, start: int, end: int, between: re.Match[str], weight: Weight, is_settings: bool) -> Iterator[Found]:
    """start, end: the name's. What is allowed to stand without quotes depends on where the name stands in its line."""
    sign, at = between["sign"], between.end()
    if sign == ">":
        yield from _element(text, at, weight)
    if sign == ">" or between["type"] is not None:
        return
    low = max(0, start - 256)
    line = text.rfind("\n", low, start) + 1
    if line == 0 and low > 0:
        line = low
    before = text[line:start]
    is_tight = between["blank"] == "" and at == end + len(sign or "") + len(between["close"] or "")
    mark = text[start - 1 : start]
    if before.endswith("--") or text.startswith("--", start):
        if sign in (None, "=") and between["close"] is None:
            yield from _judged(text, _RUN.match(text, at), weight, is_indirect=sign is None)
    elif sign == "=" and is_tight and _BEFORE_PIECE.fullmatch(before):
        yield from _judged(text, _PIECE.match(text, at), weight)
    elif (
        sign == "="
        and is_tight
        and mark in ('"', "'")
        and (piece := _PIECE.match(text, at))
        and text.startswith(";", piece.end())
    ):
        yield from _judged(text, piece, weight)
    elif (
        sign == "=" and is_tight and not any(char.islower() for char in text[start:end]) and _BEFORE_VARIABLE.fullmatch(before)
    ):
        yield from _judged(text, _RUN.match(text, at), weight)
    elif sign in (":", "=") and mark and mark in "\"'`" and between["close"] is None:
        value = _RUN.match(text, at + (text[at : at + 1] == " "))
        if value is not None and text.startswith(mark, value.end()):
            yield from _judged(text, value, weight)
    elif sign is None and _is_list(text, before, start):
        yield from _judged(text, _RUN.match(text, at), weight)
    elif sign in (":", "=") and _BEFORE_SETTING.fullmatch(before):
        is_remark = before.strip()[:1] in ("#", "/", "*", ";") and before.strip() != ""
        if is_settings or is_remark:
            yield from _setting(text, at, weight, is_remark and not is_settings)


def _is_list(text: str, before: str, start: int) -> bool:
    """Whether name and value stand there with a blank between them, as in .netrc and in ENV of a Dockerfile."""
    if _BEFORE_ENV.fullmatch(before):
        return True
    return "machine " in text[max(0, start - 512) : start] and _BEFORE_NETRC.fullmatch(before) is not None


def _judged(text: str, value: re.Match[str] | None, weight: Weight, *, is_indirect: bool = False) -> Iterator[Found]:
    if value is None:
        return
    bare = value[0].rstrip(",;\\" if "{" in value[0] else ",;)]}\\")
    if (
        bare
        and not bare.startswith(("$(", "${", "<(", "{{"))
        and not bare.endswith(("(", "[", "{"))
        and is_secret(bare, weight, is_indirect=is_indirect)
    ):
        yield value.start(), value.start() + len(bare), _KINDS[weight]


def _setting(text: str, at: int, weight: Weight, is_remark: bool) -> Iterator[Found]:
    """The rest of the line is the value; behind a bar (YAML) the next line is."""
    line = _LINE.match(text, at)
    if line is None:
        return
    if _BAR.fullmatch(line[0]) and line.end() < len(text):
        line = _LINE.match(text, text.index("\n", line.end()) + 1 if "\n" in text[line.end() : line.end() + 2] else line.end())
        if line is None:
            return
    value = _COMMENT.sub("", line[0], count=1).strip()
    if (
        not value
        or _CALL.fullmatch(value)
        or value[0] in "\"'`&*|>"
        or (is_remark and is_expression(value) and not value.isalnum())
    ):
        return
    if is_secret(value, weight, is_indirect=is_remark):
        start = text.index(value, line.start())
        yield start, start + len(value), _KINDS[weight]


def _element(text: str, at: int, weight: Weight) -> Iterator[Found]:
    """The content of an XML element that is named so."""
    end = text.find("</", at, at + _LONGEST_VALUE)
    if end > at and "<" not in text[at:end] and is_secret(text[at:end].strip(), weight, is_indirect=False):
        value = text[at:end]
        start = at + len(value) - len(value.lstrip())
        yield start, start + len(value.strip()), _KINDS[weight]


def _is_settings(text: str) -> bool:
    """Whether nearly all that a text says is names with values, as in .env, INI, YAML and properties files."""
    n = n_settings = 0
    for raw in text[:65536].splitlines()[:2000]:
        line = raw.strip()[:512]
        if not line or line[0] in "#;" or line.startswith("//"):
            continue
        n += 1
        n_settings += _SETTING.fullmatch(line) is not None and not line.endswith((";", ",", "{"))
    return n > 0 and n_settings >= 0.75 * n
