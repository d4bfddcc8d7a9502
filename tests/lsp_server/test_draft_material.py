"""What requests bring to be drafted from: it is ready when it is, names only what was offered, and nobody waits for it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from inference.config import EngineConfig
from inference.drafts.chunks import Chunks, digest_of
from inference.types import GenerationRequest
from lsp_server.answers.enough import Wants
from lsp_server.config import Config
from lsp_server.plans.draft_material import AROUND, QUIET_S, DraftMaterial
from tests.lsp_server.test_session import VOCAB, Bench, run_virtual

LINES = "".join(f"    value{i} = total(name, item)  # {i * 7919 % 1000}\n" for i in range(2500))


def test_texts_around_the_cursor_are_offered_after_a_quiet_moment_and_named_afterwards() -> None:
    async def scenario() -> None:
        b = Bench("def foo(item):\n" + LINES[:60_000] + "    x = ", "\n" + LINES[60_000:])
        await b.ask()
        assert b.client.requests[0].chunks == ()
        await b.client.idle()
        await asyncio.sleep(QUIET_S + 1)
        texts = {digest: VOCAB.text(tokens).decode() for digest, tokens in b.client.offered.items()}
        assert all(digest == digest_of(tokens) for digest, tokens in b.client.offered.items())
        whole = b.text.bytes().decode()
        assert all(text in whole for text in texts.values())
        n_bytes = sum(map(len, texts.values()))
        assert AROUND < n_bytes <= 2 * AROUND + 200, "both sides, and no more of the file than that"
        b.type("q")
        await b.ask()
        request = b.client.requests[-1]
        assert set(request.chunks) == set(texts)
        assert "".join(texts[digest] for digest in request.chunks) in whole
        b.type("\n    y = ")
        await asyncio.sleep(QUIET_S + 1)
        await b.ask()
        await b.client.idle()
        await asyncio.sleep(QUIET_S + 1)
        assert len(b.client.offered) - len(texts) <= 4, "an edit changes one chunk, and moves the ends"

    run_virtual(scenario)


def test_a_line_without_end_comes_in_parts_that_an_engine_takes() -> None:
    async def scenario() -> None:
        b = Bench('data = [{"größe": "' + "ä€😀é, " * 20_000 + "}, x", "\n" + LINES[:60_000])
        chunks = Chunks(1 << 20)
        await b.ask()
        await b.client.idle()
        await asyncio.sleep(QUIET_S + 1)
        texts = [VOCAB.text(tokens) for tokens in b.client.offered.values()]
        assert all(chunks.put(digest, tokens) for digest, tokens in b.client.offered.items())
        assert AROUND < sum(map(len, texts)) <= 2 * AROUND + 200
        assert max(map(len, texts)) <= 8192
        whole = b.text.bytes().decode()
        assert all(text.decode() in whole for text in texts), "no character is cut"
        b.type("q")
        await b.ask()
        assert set(b.client.requests[-1].chunks) == set(b.client.offered)

    run_virtual(scenario)


def test_the_text_suggested_before_comes_along_from_where_the_prompt_ends() -> None:
    async def scenario() -> None:
        said = "number + index + value"
        b = Bench("def foo(item):\n    x = ", "\n", script=said)
        await b.ask()
        await b.client.idle()
        first = b.client.requests[-1]
        assert first.previous == ()
        b.type("zq")  # not what was suggested
        await b.ask()
        request = [r for r in b.client.requests if r.previous][-1]
        text = VOCAB.text(request.previous)
        assert text.startswith(request.heal) and said.encode().endswith(text[len(request.heal) :])

    run_virtual(scenario)


def test_nothing_is_brought_where_drafts_are_off() -> None:
    async def scenario() -> None:
        b = Bench("def foo(item):\n    x = ", "\n")
        material, request = DraftMaterial(), GenerationRequest(1, (1, 2))
        desk = SimpleNamespace(config=Config(engine=EngineConfig(drafts="off")), client=b.client)
        wants = Wants(b.snapshot, b.cursor, True, 1, False)
        assert material.furnish(request, wants, None, desk) is request  # type: ignore[arg-type]
        await asyncio.sleep(QUIET_S + 1)
        assert not b.client.offered

    run_virtual(scenario)
