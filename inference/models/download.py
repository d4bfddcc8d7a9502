"""One file over HTTP into FILE.download, gone on with after any interruption.

Owns the part, its record FILE.download.json, requests and their repetition. Proxies are those of the environment (http_proxy,
https_proxy, no_proxy) or the system, certificates those of the system or SSL_CERT_FILE. Refuses to say whether the file is
the right one: it gives its digest.

What is there is trusted only as the beginning of the same file: the server has to confirm that by the validator it gave before,
and the digest of the whole is compared afterwards in any case.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inference.models.durable import write_text
from inference.models.store import OnProgress, Progress
from inference.types import EngineError

_READ_BYTES = 1 << 20
_TIMEOUT_S = 30.0
_MOST_FAILURES = 5  # in a row, without a new byte
_MOST_FAILURES_AT_FIRST = 2  # before any byte came: then it is more likely the wrong address than a bad moment
_MOST_RECORD_BYTES = 1 << 16
_AGENT = "midfill"

_NETWORK = (OSError, http.client.HTTPException)  # URLError, TLS errors and timeouts are kinds of OSError


class NotThere(EngineError):
    """The server has no such file, or says so by refusing it. is_refused: it was the latter."""

    def __init__(self, sentence: str, *, is_refused: bool = False) -> None:
        super().__init__(sentence)
        self.is_refused = is_refused


class Changed(Exception):
    """What is in the part cannot be gone on with: it has to be begun anew."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to get. n_bytes: the size it must have; None = any. n_total: expected size, for progress."""

    address: str
    n_bytes: int | None
    n_total: int


class Download:
    """The part at one path. One process at a time: the caller holds the lock."""

    def __init__(self, part: Path, progress: OnProgress, pause: Callable[[float], None] = time.sleep) -> None:
        self._part = part
        self._record = part.with_name(part.name + ".json")
        self._progress = progress
        self._pause = pause
        self._sha256 = hashlib.sha256()
        self._n_bytes = 0
        # Its proxies are those of the environment at this moment.
        self._opener = urllib.request.build_opener()

    def fetch(self, wanted: Wanted) -> str:
        """The digest of the whole file, which then is the part. EngineError: it cannot be got, or is no GGUF; one sentence.

        NotThere: the server says that there is none. OSError: the part cannot be written.
        """
        validator = self._resume(wanted)
        failures = 0
        while True:
            before = self._n_bytes
            try:
                if self._continue(wanted, validator):
                    return self._sha256.hexdigest()
                reason = "the connection was closed early"
            except Changed:
                self._begin()
                validator, before = "", 0
                reason = "the file changed on the server while it was being read"
            except _Network as error:
                reason = str(error)
            failures = 0 if self._n_bytes > before else failures + 1
            if failures >= (_MOST_FAILURES if self._n_bytes else _MOST_FAILURES_AT_FIRST):
                raise EngineError(f"{shown(wanted.address)} could not be read ({reason})")
            self._pause(min(0.5 * 2**failures, 8.0))
            validator = self._validator(wanted) or validator

    def discard(self) -> None:
        self._part.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    def _resume(self, wanted: Wanted) -> str:
        """Take over what is there if it can be gone on with; the validator to ask with, "" if nothing is.

        Nothing is touched yet: what is there may be gone on with at another address.
        """
        self._sha256, self._n_bytes = hashlib.sha256(), 0
        validator = self._validator(wanted)
        if not validator or not self._part.is_file():
            return ""
        n_bytes = self._part.stat().st_size
        with open(self._part, "rb") as file:
            while block := file.read(_READ_BYTES):
                self._sha256.update(block)
                self._n_bytes += len(block)
                self._progress(Progress("checking", self._n_bytes, n_bytes))
        return validator

    def _validator(self, wanted: Wanted) -> str:
        try:
            with open(self._record, encoding="utf-8") as file:
                kept: Any = json.loads(file.read(_MOST_RECORD_BYTES))
            return str(kept["validator"]) if kept["address"] == _key(wanted.address) else ""
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return ""

    def _begin(self) -> None:
        self._record.unlink(missing_ok=True)
        with open(self._part, "wb"):
            pass
        self._sha256, self._n_bytes = hashlib.sha256(), 0

    def _continue(self, wanted: Wanted, validator: str) -> bool:
        """One request, as far as it gets; whether the file is whole now. A server that begins anew is gone along with."""
        request = _request(wanted.address)
        if self._n_bytes and validator:
            request.add_header("Range", f"bytes={self._n_bytes}-")
            request.add_header("If-Range", validator)
        try:
            response = self._opener.open(request, timeout=_TIMEOUT_S)
        except urllib.error.HTTPError as error:
            error.close()
            return self._refused(wanted, error)
        except _NETWORK as error:
            raise _Network(_said(error)) from None
        with response:
            total = self._accept(wanted, response)
            self._read(wanted, response, total)
        return self._n_bytes == total if total is not None else True

    def _refused(self, wanted: Wanted, error: urllib.error.HTTPError) -> bool:
        if error.code == 416 and self._n_bytes:  # nothing comes behind what is there
            if self._n_bytes == _total(error.headers.get("Content-Range", "")):
                return True
            raise Changed
        if error.code in (404, 410):
            raise NotThere(f"{shown(wanted.address)} does not exist")
        if error.code in (401, 403):  # some stores answer so for a file that they do not have
            raise NotThere(f"{shown(wanted.address)} answers {error.code} {error.reason}", is_refused=True)
        if error.code >= 500 or error.code == 429:
            raise _Network(f"it answers {error.code} {error.reason}")
        raise EngineError(f"{shown(wanted.address)} answers {error.code} {error.reason}")

    def _accept(self, wanted: Wanted, response: Any) -> int | None:
        """The size of the whole file, if it is told, after the part was set to where this answer begins."""
        if response.status == 206:
            content_range = response.headers.get("Content-Range", "")
            begin = re.match(r"bytes (\d+)-", content_range)
            if begin is None or int(begin.group(1)) != self._n_bytes:
                raise Changed
            total = _total(content_range)
        else:
            self._begin()
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
        if wanted.n_bytes is not None and total is not None and total != wanted.n_bytes:
            self.discard()
            raise EngineError(f"{shown(wanted.address)} has {total:,} bytes, not the {wanted.n_bytes:,} of the published file")
        validator = response.headers.get("ETag", "")
        if not validator or validator.startswith("W/"):  # a weak one does not speak of the bytes
            validator = response.headers.get("Last-Modified", "")
        if validator:
            write_text(self._record, json.dumps({"address": _key(wanted.address), "validator": validator}))
        return total

    def _read(self, wanted: Wanted, response: Any, total: int | None) -> None:
        n_total = total or wanted.n_total
        with open(self._part, "r+b") as file:
            file.seek(self._n_bytes)
            try:
                while block := _block(response):
                    if self._n_bytes == 0 and not b"GGUF".startswith(block[:4]) and not block.startswith(b"GGUF"):
                        raise EngineError(f"{shown(wanted.address)} is no GGUF file")
                    file.write(block)
                    self._sha256.update(block)
                    self._n_bytes += len(block)
                    if total is not None and self._n_bytes > total:
                        raise Changed
                    self._progress(Progress("downloading", self._n_bytes, n_total))
            finally:
                file.flush()
                os.fsync(file.fileno())


class _Network(Exception):
    """Something that may be better next time."""


def _block(response: Any) -> bytes:
    """What the network brings next, b"" at the end; its errors told apart from those of the disk."""
    try:
        block: bytes = response.read1(_READ_BYTES)
    except _NETWORK as error:
        raise _Network(_said(error)) from None
    return block


def _said(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(text).splitlines()[0][:200]


def _request(address: str) -> urllib.request.Request:
    """Name and password in an address go into a header, which is not sent on to where a redirection leads."""
    parts = urllib.parse.urlsplit(address)
    request = urllib.request.Request(_bare(address), headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"})
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair.encode()).decode())
    return request


def _bare(address: str) -> str:
    parts = urllib.parse.urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def shown(address: str) -> str:
    """An address for messages: without name, password and query, which may be secret."""
    return urllib.parse.urlsplit(_bare(address))._replace(query="", fragment="").geturl()


def _key(address: str) -> str:
    return hashlib.sha256(_bare(address).encode()).hexdigest()


def _total(content_range: str) -> int | None:
    match = re.search(r"/(\d+)$", content_range)
    return int(match.group(1)) if match else None
