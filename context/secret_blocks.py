"""Secrets of more than one piece: private keys, addresses with a password in them, headers, and lists of secrets.

Owns what is told by its surroundings rather than by a name or by itself. Each question looks for a mark first, and from there
at a bounded stretch or at what it then passes over.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from context.secret_assignments import Found
from context.secret_values import Weight, has_digit, is_placeholder, is_random, is_secret

_MARK = re.compile(
    r"-{4,5} ?(?P<edge>BEGIN|END) [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-(?P<putty>Lines: [0-9]+|MAC:)"
)
_LINE = re.compile(r"[^\r\n]*+(?:\r?\n|\r|\Z)")
_CODE = re.compile(r"\\[nrt]|\\u000[aAdD]|%0[aAdD]|[A-Za-z0-9+/_-]++={0,3}+")
_NOISE = re.compile(r"[\s\"'`+,;()\[\]#*/.\\|>:&-]*")
_ARMOR = re.compile(r"(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset|MessageID|Subject|x-\w+): ?[^\r\n\\]*")

_USER_INFO = re.compile(r"[^\s:@/\"'`<>\\]{0,256}+:([^\s@/\"'`<>\\]{1,256}+)@(?=[\w\[{$%(-])")
_TOKEN_INFO = re.compile(r"([A-Za-z0-9_.~-]{16,256}+)(?::[a-z-]{0,20})?@(?=\w)")
_ORACLE = re.compile(r"jdbc:oracle:\w{1,8}:[^\s/@\"']{1,128}+/([^\s/@\"']{1,128}+)@")
_SCHEME = re.compile(r"\b(bearer|basic|token|apikey|digest)(?:[ \t]{1,4}+|%20)([A-Za-z0-9+/._~-]{8,}+={0,2})", re.IGNORECASE)
_CURL_USER = re.compile(
    r"\b(?:curl|wget|http)\b[^\r\n]{0,400}?[ \t](?:-u|--user|-a|--auth)[ =]?[\"']?[^\s:\"'$<]{1,64}:([^\s\"'<]{3,256}+)"
)
_IDENTIFIED = re.compile(r"\bIDENTIFIED(?:\s+WITH\s+\w{1,64})?\s+BY\s+([\"'])([^\"'\r\n]{1,256}+)\1", re.IGNORECASE)
_PGPASS = re.compile(r"^[\w.*-]{1,253}+:(?:5432|5433|6432|\*):[^:\s]{1,64}+:[^:\s]{1,64}+:(\S{1,256}+)[ \t]*\r?$", re.MULTILINE)
_JWK = re.compile(r"\"(?:d|p|q|dp|dq|qi|k)\"\s{0,8}:\s{0,8}\"([A-Za-z0-9_-]{16,}+)\"")
_KUBERNETES = re.compile(r"^[ ]*kind:[ \t]*[\"']?Secret[\"']?[ \t]*\r?$", re.MULTILINE)
_MANIFEST_END = re.compile(r"^---", re.MULTILINE)
_DATA = re.compile(r"^([ ]*)(?:data|stringData):[ \t]*\r?\n((?:\1[ \t]+[^\r\n]*\r?(?:\n|\Z)|[ \t]*\r?\n)*+)", re.MULTILINE)
_ENTRY = re.compile(
    r"^[ \t]*(?:[\"']?[\w./-]+[\"']?:(?=[ \t]|\r?$))?+[ \t]*+(?![|>][+-]?[ \t]*\r?$)[\"']?([^\s\"'][^\r\n\"']*)", re.MULTILINE
)


def block_secrets(text: str) -> Iterator[Found]:
    """Everything this module knows, in no order; spans may overlap."""
    if "PRIVATE KEY" in text or "Private-Lines:" in text:
        yield from _private_keys(text)
    if "://" in text or "jdbc:oracle" in text:
        yield from _addresses(text)
    yield from _headers(text)
    if "IDENTIFIED" in text or "identified" in text:
        for match in _IDENTIFIED.finditer(text):
            if not is_placeholder(match[2]) and (match[0][0] == "I" or not match[2].isalpha()):
                yield match.start(2), match.end(2), "password"
    if ":5432:" in text or ":6432:" in text or ":5433:" in text or ":*:" in text:
        for match in _PGPASS.finditer(text):
            yield match.start(1), match.end(1), "password"
    if '"kty"' in text:
        for match in _JWK.finditer(text):
            if has_digit(match[1]):
                yield match.start(1), match.end(1), "private-key"
    if "Secret" in text:
        yield from _manifests(text)


def _private_keys(text: str) -> Iterator[Found]:
    """What stands between two marks is looked at once: from a beginning on, or back from an end whose beginning is cut off."""
    marks = list(_MARK.finditer(text))
    is_open, last = False, 0
    for i, mark in enumerate(marks):
        is_first = mark["edge"] == "BEGIN" or (mark["putty"] or "").startswith("Lines")
        if is_first:
            yield from _body(text, mark.end(), marks[i + 1].start() if i + 1 < len(marks) else len(text))
        elif not is_open:
            yield from _tail(text, last, mark.start())
        is_open, last = is_first, mark.end()


def _body(text: str, start: int, stop: int) -> Iterator[Found]:
    """The lines of a key from its first on, as long as they are nothing else."""
    at, n_long = start, 0
    while at < stop:
        line = _LINE.match(text, at, stop)
        if line is None or line.end() == at:
            return
        runs = _runs(text, at, line.end())
        if _ARMOR.search(line[0]) is None:
            if runs is None:
                return
            n_long += any(end - begin >= 16 for begin, end in runs)
            if runs and not n_long:
                return
            yield from ((begin, end, "private-key") for begin, end in runs)
        at = line.end()


def _tail(text: str, start: int, stop: int) -> Iterator[Found]:
    """The lines of a key before its last one, as far back as they are nothing else."""
    found: list[tuple[int, int]] = []
    at, n_long = stop, 0
    while at > start:
        line = max(text.rfind("\n", start, at - 1) + 1, start)
        runs = _runs(text, line, at)
        if runs is None or (not runs and at < stop):
            break
        is_long = any(end - begin >= 16 for begin, end in runs)
        if found and not is_long:
            break  # before the last line of a key, all are long
        found += runs
        n_long += is_long
        at = line
    if n_long:
        yield from ((begin, end, "private-key") for begin, end in found)


def _runs(text: str, start: int, stop: int) -> list[tuple[int, int]] | None:
    """The pieces of base64 in a stretch; None if it holds anything else but quotes, line ends and the like."""
    runs: list[tuple[int, int]] = []
    at = start
    for match in _CODE.finditer(text, start, stop):
        if _NOISE.fullmatch(text, at, match.start()) is None:
            return None
        at = match.end()
        if match[0][0] not in "\\%" and match[0].strip("-+/_="):
            runs.append((match.start(), match.end()))
    return runs if _NOISE.fullmatch(text, at, stop) is not None else None


def _addresses(text: str) -> Iterator[Found]:
    at = text.find("://")
    while at >= 0:
        info = _USER_INFO.match(text, at + 3)
        if info is not None and is_secret_in_address(info[1]):
            yield info.start(1), info.end(1), "url-password"
        elif (info := _TOKEN_INFO.match(text, at + 3)) is not None and is_random(info[1], 16):
            yield info.start(1), info.end(1), "url-token"
        at = text.find("://", at + 3)
    for match in _ORACLE.finditer(text):
        if is_secret_in_address(match[1]):
            yield match.start(1), match.end(1), "url-password"


def is_secret_in_address(value: str) -> bool:
    """Whether what stands between user and host is a password: all is, but for what says that one belongs here."""
    return not (is_placeholder(value) and len(value) > 1) and not re.search(r"[{}<>]|^\$|^%[(sA-Z]|^\(|^\.|^-", value)


def _headers(text: str) -> Iterator[Found]:
    for match in _SCHEME.finditer(text):
        name, value = match[1].lower(), match[2]
        if (_is_basic(value) if name == "basic" else is_random(value, 16 if name == "bearer" else 20)) and not is_placeholder(
            value
        ):
            yield match.start(2), match.end(2), "authorization"
    if "curl" in text or "wget" in text or "http" in text:
        for match in _CURL_USER.finditer(text):
            if is_secret(match[1], Weight.PASSWORD, is_indirect=False):
                yield match.start(1), match.end(1), "password"


def _is_basic(value: str) -> bool:
    """Whether a value is user and password in base64 (RFC 7617)."""
    try:
        pair = base64.b64decode(value[:1024] + "=" * (-len(value[:1024]) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in pair[1:] and all(byte >= 0x20 for byte in pair)


def _manifests(text: str) -> Iterator[Found]:
    """The values of Kubernetes secrets: one manifest is what stands between two rules."""
    low = 0
    for rule in (*_MANIFEST_END.finditer(text), None):
        stop = rule.start() if rule is not None else len(text)
        if _KUBERNETES.search(text, low, stop) is not None:
            for data in _DATA.finditer(text, low, stop):
                for entry in _ENTRY.finditer(text, data.start(2), data.end(2)):
                    if not is_placeholder(entry[1]) and not entry[1].startswith(("{", "$")):
                        yield entry.start(1), entry.end(1), "kubernetes-secret"
        low = stop
