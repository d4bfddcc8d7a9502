"""`/v1/completions`: from a body to a request, and from its events to an answer, whole or streamed.

Owns the check of a prompt against vocabulary and context. Text is user text: it never becomes a control token.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from aiohttp import web

from inference import sse
from inference.backend import Vocab
from inference.call import Call, decode_call
from inference.drafts.chunks import Chunks
from inference.serve.body import read_body
from inference.serve.door import peer_of
from inference.serve.errors import Refused
from inference.serve.host import EngineHost
from inference.serve.limits import Limits
from inference.serve.running import Feed, Running
from inference.serve.stream import EventStream
from inference.types import FinishReason, TokenEvent
from inference.wire import Choice, EngineState, Envelope, encode_completion, encode_usage

_SHORT = 2048  # bytes that are tokenized at once; longer texts are not worth holding up the loop


def require_vocab(host: EngineHost) -> Vocab:
    """Refused: the engine has none yet, or never will."""
    news = host.news()
    if news.state is EngineState.FAILED:
        raise Refused(503, news.why or "The model can't be loaded.", "failed")
    if host.vocab is None or not host.n_ctx:
        raise Refused(503, "The model is being loaded; try again soon.", "loading", headers={"Retry-After": "1"})
    return host.vocab


class Completions:
    def __init__(self, host: EngineHost, running: Running, limits: Limits, chunks: Chunks) -> None:
        self._chunks = chunks
        self._host = host
        self._running = running
        self._limits = limits
        self._longest: tuple[Vocab, int] | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        vocab = require_vocab(self._host)
        call = decode_call(await read_body(request, self._limits, self._host.n_ctx))
        self._check_model(call.model)
        tokens = await self._tokens(call.prompt, vocab)
        feed = self._running.start(call, tokens, peer_of(request.transport))
        envelope = Envelope(feed.name, self._host.model_name, int(time.time()))
        try:
            return await (self._stream if call.is_stream else self._whole)(request, call, feed, envelope)
        finally:
            feed.leave(call.adopt_ms)

    def _unknown(self, call: Call) -> tuple[str, ...]:
        """Digests that it named and nobody has sent. Asked at the end: what was on its way then has arrived."""
        return self._chunks.unknown(call.chunks) if call.chunks else ()

    def _check_model(self, name: str) -> None:
        """A request that was meant for another model would get nonsense, with token ids even silently."""
        if name and name not in (self._host.model_name, self._host.model.path.name, self._host.model.path.stem):
            sentence = f"This engine runs {self._host.model_name} only; name that, or no model."
            raise Refused(404, sentence, "model_not_found")

    async def _tokens(self, prompt: str | tuple[int, ...], vocab: Vocab) -> tuple[int, ...]:
        n_ctx = self._host.n_ctx
        if isinstance(prompt, tuple):
            tokens = prompt
            if tokens and max(tokens) >= vocab.n_tokens:
                raise Refused(400, f"prompt has a token id beyond the vocabulary of {vocab.n_tokens:,}.")
        else:
            data = prompt.encode()
            if len(data) > n_ctx * self._longest_piece(vocab):
                raise _too_long("more", n_ctx)
            body = vocab.encode(data) if len(data) <= _SHORT else await asyncio.to_thread(vocab.encode, data)
            tokens = (*((vocab.bos[0],) if vocab.bos is not None else ()), *body)
        if not tokens:
            raise Refused(400, "prompt is empty.")
        if len(tokens) >= n_ctx:
            raise _too_long(f"{len(tokens):,}", n_ctx)
        return tokens

    def _longest_piece(self, vocab: Vocab) -> int:
        if self._longest is None or self._longest[0] is not vocab:
            self._longest = (vocab, max(map(len, vocab.pieces)))
        return self._longest[1]

    async def _whole(self, request: web.Request, call: Call, feed: Feed, envelope: Envelope) -> web.StreamResponse:
        texts = dict.fromkeys(range(call.n_candidates), "")
        while True:
            event = await feed.next(self._limits.quiet_s)
            if event is None:
                continue
            texts[event.candidate] += event.text
            if event.finish is not None:
                break
        if event.finish is FinishReason.ERROR:
            raise Refused(500, event.error, "engine_error")
        ranked = {texts[r.candidate]: r for r in reversed(event.ranking)}  # a stop string may have made two the same
        best_first = [r for r in event.ranking if r in ranked.values()]
        choices = [Choice(rank, texts[r.candidate], r.finish) for rank, r in enumerate(best_first)]
        ranking = tuple(replace(r, candidate=rank) for rank, r in enumerate(best_first))  # by the choices' numbers
        event, host = replace(event, text=texts[0], ranking=ranking), self._host
        body = encode_completion(
            envelope, event, host.counters(), host.costs(), choices=choices, with_usage=True, unknown_chunks=self._unknown(call)
        )
        return web.Response(body=body, content_type="application/json")

    async def _stream(self, request: web.Request, call: Call, feed: Feed, envelope: Envelope) -> web.StreamResponse:
        stream = EventStream(request, self._limits.write_s)
        await stream.begin()
        while True:
            event = await feed.next(self._limits.quiet_s)
            if event is None:
                await stream.write(sse.comment())
            elif event.finish is None:
                await stream.write(sse.frame(encode_completion(envelope, event)))
            else:
                break
        data = b""
        for other in event.ranking:  # each choice has an end; ours is told with the last event, candidate 0's
            if other.candidate != event.candidate:
                choice = Choice(other.candidate, "", other.finish)
                data += sse.frame(encode_completion(envelope, TokenEvent(0, "", event.stats), choices=[choice]))
        unknown = self._unknown(call)
        data += sse.frame(encode_completion(envelope, event, self._host.counters(), self._host.costs(), unknown_chunks=unknown))
        if call.with_usage:
            data += sse.frame(encode_usage(envelope, event.stats))
        return await stream.end(data + sse.frame(sse.DONE))


def _too_long(n: str, n_ctx: int) -> Refused:
    return Refused(400, f"The prompt has {n} tokens, the context only {n_ctx:,}.", "context_length_exceeded")
