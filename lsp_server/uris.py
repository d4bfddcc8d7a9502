"""The identity of a document: one spelling for each URI, the path in it, and whether that is a path of this machine's disk.

Owns the normal form. Refuses to look at the disk, and never raises: what is not a URI is its own identity.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

_URI = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(?://([^/?#]*))?([^?#]*)((?:\?[^#]*)?)((?:#.*)?)", re.DOTALL)
_DRIVE = re.compile(r"/([a-zA-Z]):(?=/|$)")
_IS_DRIVE = re.compile(r"[a-z]:")
_SAFE = "!$&'()*+,;=:@~-._"  # what a path segment may hold as it is
_SAFE_HOST = _SAFE + "[]"


def document_id(uri: str) -> str:
    """The normal form: scheme, host and drive letter in lower case, percent-encoding only where it is needed.

    Query and fragment stay as they are: they tell apart notebook cells and old versions of a file.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        return uri
    scheme, authority, path, query, fragment = match.groups()
    scheme = scheme.lower()
    host = quote_from_bytes(_bytes(authority or "").lower(), safe=_SAFE_HOST)  # `wsl%2Bubuntu` is `wsl+ubuntu`
    if scheme == "file" and _IS_DRIVE.fullmatch(host):  # `file://c:/w`, with a slash too few
        host, path = "", f"/{host}{path}"
    if scheme == "file" and host == "localhost":
        host = ""
    # Segment by segment: an encoded slash is not a separator.
    path = "/".join(quote_from_bytes(_bytes(segment), safe=_SAFE) for segment in path.split("/"))
    path = _DRIVE.sub(lambda drive: f"/{drive.group(1).lower()}:", path, count=1)
    slashes = "//" if authority is not None or scheme == "file" else ""
    return f"{scheme}:{slashes}{host}{path}{query}{fragment}"


def is_on_disk(doc_id: str) -> bool:
    """Does `path_of` name a file of this machine? Only `file:` without a host does (on Windows also with one: a share), and a
    bare path. What any other scheme calls a path may lie on another machine, in a repository, or nowhere."""
    match = _URI.fullmatch(doc_id)
    if match is None:
        return True
    scheme, authority, _, _, _ = match.groups()
    return scheme == "file" and (not authority or os.name == "nt")


def path_of(doc_id: str) -> str:
    """The path part, decoded: a path of the disk if `is_on_disk`, else what stands in its place ("Untitled-1"). "" if none."""
    match = _URI.fullmatch(doc_id)
    if match is None:
        return doc_id
    scheme, authority, path, _, _ = match.groups()
    decoded = os.fsdecode(_bytes(path))
    if os.name == "nt":
        if scheme == "file" and authority:
            return f"//{authority}{decoded}"
        if _DRIVE.match(decoded):
            return decoded[1:]
    return decoded


def _bytes(text: str) -> bytes:
    return unquote_to_bytes(text.encode("utf-8", "surrogatepass"))
