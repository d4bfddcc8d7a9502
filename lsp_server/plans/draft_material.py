"""What the engine may draft from when a document is completed: the text suggested before, and texts that may be repeated.

Owns the chunks of one document: what stands around the cursor beyond the prompt, and the pieces of other places, each as tokens
with a digest. They are tokenized beside the requests, a little at a time and never for one that waits; a request names what is
ready. Chunks end at lines that are chosen by their content, so an edit changes one of them. Refuses to decide anything about a
text: a draft changes none.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from context.prompt_form import to_prompt
from context.types import DocumentSnapshot
from inference.drafts.chunks import digest_of
from inference.types import GenerationRequest
from lsp_server.answers.enough import Wants
from lsp_server.answers.generation import Generation
from lsp_server.desk import Desk

AROUND = 24 * 1024  # bytes on each side of the cursor
QUIET_S = 0.7  # without a request, before anything is tokenized
_LONGEST, _SHORTEST = 4096, 512  # bytes of a chunk
_MOST = 8192  # bytes of one that has a longer line in it, and of a piece: an engine takes no more than 16,384 tokens in one
_N_PIECES = 24  # pieces of other places
_N_KNOWN = 256
_LONGEST_PREVIOUS = 2048  # bytes

Chunk = tuple[str, tuple[int, ...]]  # digest and tokens


class DraftMaterial:
    """Of one document."""

    def __init__(self) -> None:
        self._ready: tuple[str, ...] = ()
        self._known: OrderedDict[bytes, Chunk] = OrderedDict()  # by digest of the text
        self._task: asyncio.Task[None] | None = None

    def furnish(self, request: GenerationRequest, wants: Wants, before: Generation | None, desk: Desk) -> GenerationRequest:
        """The request with what can be drafted from. before: what was generated last. Takes no time worth speaking of."""
        if desk.config.engine.drafts == "off":
            return request
        self.stop()
        self._task = asyncio.get_running_loop().create_task(self._refresh(wants.snapshot, wants.offset, desk))
        text = b"" if before is None else _previous(before, wants, request.heal)
        return replace(request, previous=desk.client.vocab.encode(text) if text else (), chunks=self._ready)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _refresh(self, snapshot: DocumentSnapshot, offset: int, desk: Desk) -> None:
        """When nobody has asked for a moment: tokenize what is new, piece by piece, and offer it."""
        await asyncio.sleep(QUIET_S)
        chunks: dict[str, tuple[int, ...]] = {}
        loop, encode = asyncio.get_running_loop(), desk.client.vocab.encode
        for text in (*_pieces(snapshot, desk), *_around(snapshot, offset)):
            key = hashlib.blake2b(text, digest_size=16).digest()
            if key not in self._known:
                tokens = await loop.run_in_executor(desk.pool, encode, text)
                self._known[key] = (digest_of(tokens), tokens)
            self._known.move_to_end(key)
            digest, tokens = self._known[key]
            chunks[digest] = tokens
        while len(self._known) > _N_KNOWN:
            self._known.popitem(last=False)
        desk.client.offer(chunks)
        self._ready = tuple(chunks)


def _previous(before: Generation, wants: Wants, heal: bytes) -> bytes:
    """What was suggested behind the place where the new prompt ends. If it disagrees with what was typed since, as much of it
    is left out as was typed: it may agree again."""
    if wants.offset < before.plan.anchor or before.plan.doc_id != wants.snapshot.doc_id:
        return b""
    typed = wants.typed_since(before.plan.anchor)
    said = before.typed + before.first_text.encode()
    rest = said[max(0, len(typed) - len(heal)) :] if said.startswith(typed) else heal + said[len(typed) :]
    rest = rest[:_LONGEST_PREVIOUS]
    return rest if len(rest) > len(heal) else b""


def _pieces(snapshot: DocumentSnapshot, desk: Desk) -> Iterator[bytes]:
    """Pieces of other places that prompts of this document should hold, and may not have room for."""
    wanted = desk.planner.outlook(snapshot).wanted
    for piece in () if wanted is None else wanted.pieces[:_N_PIECES]:
        yield next(_parts("\n".join(piece.lines).encode("utf-8", "replace")), b"")


def _around(snapshot: DocumentSnapshot, offset: int) -> Iterator[bytes]:
    """Chunks of whole lines, in the order of the document; lines that are longer than a chunk come in parts."""
    text, first = snapshot.text, max(0, offset - AROUND)
    start = text.line_start(text.line_of(first))
    if first - start > _MOST:
        start = text.floor(first)
    data = to_prompt(text.slice(start, min(len(text), text.floor(min(len(text), offset + AROUND)))), start == 0)
    chunk = bytearray()
    for line in itertools.chain.from_iterable(map(_parts, data.splitlines(keepends=True))):
        if len(chunk) + len(line) > _MOST:
            yield bytes(chunk)
            chunk.clear()
        chunk += line
        is_border = len(chunk) >= _SHORTEST and hashlib.blake2b(line, digest_size=1).digest()[0] < 32
        if is_border or len(chunk) >= _LONGEST:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _parts(text: bytes) -> Iterator[bytes]:
    """Of at most _MOST bytes, cut between characters."""
    start = 0
    while start < len(text):
        end = start + _MOST
        while start < end < len(text) and text[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        end = end if end > start else start + _MOST
        yield text[start:end]
        start = end
