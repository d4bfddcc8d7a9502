"""What a parser finds wrong with a text put in at a place: new syntax errors, and calls of names that exist nowhere.

Owns both measures. Every document is parsed as a whole, from its text alone; the gate of the product is not asked.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator

import tree_sitter

from bench.faults import Offer, unclosed
from bench.places import Place
from context.syntax import NoTree, parse

_MOST_TAILS = 48
_TAILS = re.compile(r"\w+|[^\w\s]|\n[ \t]*")
# node of a call: field that says what is called
_CALLS = {
    "python": {"call": "function"},
    "javascript": {"call_expression": "function", "new_expression": "constructor"},
    "typescript": {"call_expression": "function", "new_expression": "constructor"},
    "go": {"call_expression": "function"},
}
_SCRIPT = """
    Array ArrayBuffer BigInt Boolean DataView Date Error Event EventTarget Float32Array Float64Array Function Int8Array
    Int16Array Int32Array Intl JSON Map Math Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set
    String Symbol URL SyntaxError TypeError URIError URLSearchParams Uint8Array Uint8ClampedArray Uint16Array Uint32Array
    WeakMap WeakRef WeakSet Blob File FileReader FormData Headers Image MutationObserver Request Response ResizeObserver
    TextDecoder TextEncoder WebSocket Worker XMLHttpRequest AbortController CustomEvent IntersectionObserver DOMParser
    alert atob btoa clearInterval clearTimeout confirm console decodeURI decodeURIComponent define document encodeURI
    encodeURIComponent escape eval exports fetch getComputedStyle import isFinite isNaN module navigator parseFloat
    parseInt prompt queueMicrotask requestAnimationFrame cancelAnimationFrame require requestIdleCallback setInterval
    setTimeout structuredClone super unescape window $ jQuery
"""
_GO = """
    append bool byte cap clear close complex complex64 complex128 copy delete error float32 float64 imag int int8 int16 int32
    int64 len make max min new panic print println real recover rune string uint uint8 uint16 uint32 uint64 uintptr any
"""
_BUILTIN = {
    "python": frozenset(dir(builtins)) | frozenset(keyword.kwlist) | frozenset(keyword.softkwlist),
    "javascript": frozenset(_SCRIPT.split()),
    "typescript": frozenset(_SCRIPT.split()),
    "go": frozenset(_GO.split()),
}


def syntax_error(place: Place, offer: Offer) -> str:
    """A new syntax error: a node ERROR or MISSING that begins inside the text and is still there when the true rest of the
    statement is appended, "KIND: what stands there"; "" if there is none.

    Where the text is not how the true remainder begins, nobody knows what its true rest is: then every end of the remainder
    counts that begins at a word, a sign or a line, and the closers of what the text has left open.
    """
    found = _first_error(place, offer, "")
    if not found or any(not _first_error(place, offer, tail, around=True) for tail in _tails(place, offer)):
        return ""
    return found


def breaks_code(place: Place, offer: Offer) -> bool:
    """Does the document have any error, wherever it begins, whatever end of the true remainder is appended?"""
    document, _, _ = offer.document(place)
    if not _has_error(place.language, document):
        return False
    for tail in _tails(place, offer):
        behind = place.after if place.closers else (place.closers + place.after)[offer.n_replaced :]
        if not _has_error(place.language, place.before + offer.text + tail + behind):
            return False
    return True


def undefined_names(place: Place, offer: Offer) -> tuple[str, ...]:
    """Names called in the text that are no builtins and stand nowhere else in the file, the true remainder included. Only of
    languages where names don't come unseen with an import."""
    fields, known = _CALLS.get(place.language), _BUILTIN.get(place.language)
    whole = place.before + place.truth + place.after
    if fields is None or known is None or re.search(r"^\s*from\s+\S+\s+import\s+\*", whole, re.M):
        return ()
    document, start, end = offer.document(place)
    first, last = len(document[:start].encode()), len(document[:end].encode())
    tree = parse(place.language, document.encode("utf-8", "replace"))
    if isinstance(tree, NoTree):
        return ()
    names: dict[str, None] = {}
    for node in _inside(tree.root, first, last):
        called = node.child_by_field_name(fields[node.type]) if node.type in fields else None
        if called is None or called.type != "identifier" or called.start_byte < first or called.end_byte > last:
            continue
        name = (called.text or b"").decode()
        # what it defines itself is known
        elsewhere = whole + re.sub(rf"(?<!def )(?<!func )(?<!function )(?<![\w.]){re.escape(name)}\s*\(", "(", offer.text)
        if name not in known and not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", elsewhere):
            names[name] = None
    return tuple(names)


def _tails(place: Place, offer: Offer) -> Iterator[str]:
    """What may be the true rest behind the text."""
    truth, text = place.truth, offer.text.rstrip()
    if truth.startswith(text):
        yield truth[len(text) :]
        return
    if closers := unclosed(place.language, text):
        yield closers
    starts = [found.start() for found in _TAILS.finditer(truth)]
    step = max(1, len(starts) // _MOST_TAILS)
    # the shortest first: most often a closer is all that lacks
    for start in reversed(starts[:: 1 if step == 1 else step]):
        yield truth[start:]


def _first_error(place: Place, offer: Offer, tail: str, *, around: bool = False) -> str:
    """around: one that begins in front of the text and reaches into it counts too; then nothing may be wrong at all."""
    document, start, end = offer.document(place)
    if tail:
        # the true rest has the closers itself
        behind = place.after if place.closers else (place.closers + place.after)[offer.n_replaced :]
        document = place.before + offer.text + tail + behind
    first, last = len(document[:start].encode()), len(document[:end].rstrip().encode())
    tree = parse(place.language, document.encode("utf-8", "replace"))
    if isinstance(tree, NoTree) or not tree.has_error:
        return ""
    for node in _inside(tree.root, first, last):
        if (node.is_error or node.is_missing) and (first <= node.start_byte or (around and node.end_byte > first)):
            said = (node.text or b"").decode("utf-8", "replace").split("\n", 1)[0][:40]
            return f"{'MISSING ' + node.type if node.is_missing else 'ERROR'}: {said}"
    return ""


def _has_error(language: str, document: str) -> bool:
    tree = parse(language, document.encode("utf-8", "replace"))
    return not isinstance(tree, NoTree) and tree.has_error


def _inside(root: tree_sitter.Node, first: int, last: int) -> Iterator[tree_sitter.Node]:
    """Nodes that touch bytes [first, last), in order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.start_byte < last and node.end_byte >= first:
            yield node
            stack += reversed(node.children)
