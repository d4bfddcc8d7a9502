"""Texts to draft from over the wire: sent once, named by digest, asked for again when the engine has lost them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from inference.clients.http import HttpClient
from inference.clients.material import N_KEPT, Offered
from inference.drafts.chunks import Chunks, digest_of
from inference.drafts.found import LOOKUP
from inference.endpoint import Endpoint
from inference.models.identity import identify
from inference.types import GenerationRequest
from tests.inference.test_engine import prompt
from tests.inference.test_http_client import Loads
from tests.support.fake_backend import FakeBackend
from tests.support.served import VOCAB, Served, events, run, serving, text_of, until
from tests.support.tiny_gguf import write_tiny

TEXT = VOCAB.encode(b"while data in text: index = total + number")
DIGEST = digest_of(TEXT)
TOKENS = prompt("while data in text:")


async def asked(served: Served, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    async with served.session() as session, session.request(method, path, json=body) as response:
        return response.status, json.loads(await response.read())


def scripted() -> FakeBackend:
    backend = FakeBackend(VOCAB, n_ctx=4096, n_seq_max=8)
    backend.scripts[TOKENS] = VOCAB.encode(b" index = total + number\n")
    return backend


def test_a_chunk_is_put_once_and_an_unknown_one_is_named_in_the_answer(tmp_path: Path) -> None:
    async def check() -> None:
        chunks = Chunks(1 << 16)
        async with serving(tmp_path, backend=scripted(), chunks=chunks) as served:
            body = {"prompt": TOKENS, "max_tokens": 32, "temperature": 0, "midfill": {"chunks": [DIGEST, "f" * 32]}}
            status, answer = await asked(served, "POST", "/v1/completions", {**body, "max_tokens": 1})
            assert status == 200 and answer["midfill"]["unknown_chunks"] == [DIGEST, "f" * 32]
            assert (await asked(served, "PUT", f"/midfill/chunks/{DIGEST}", {"tokens": TEXT})) == (200, {"kept": True})
            status, answer = await asked(served, "POST", "/v1/completions", body)
            assert status == 200 and answer["midfill"]["unknown_chunks"] == ["f" * 32]
            assert answer["choices"][0]["text"] == " index = total + number\n"
            stats = served.engine.stats()
            assert stats.n_chunks == 1 and stats.chunk_bytes > 4 * len(TEXT)
            assert LOOKUP in {figures.source for figures in stats.drafts}
            async with served.session() as session, session.get("/metrics") as response:
                page = await response.text()
            assert 'midfill_draft_drafted{source="lookup"}' in page and "midfill_engine_chunks 1" in page

    run(check)


def test_what_is_no_chunk_is_refused_in_one_sentence(tmp_path: Path) -> None:
    async def check() -> None:
        async with serving(tmp_path, chunks=Chunks(1 << 16)) as served:
            for path, body, said in (
                (DIGEST, {"tokens": TEXT[1:]}, "digest"),
                ("nonsense", {"tokens": TEXT}, "32 hexadecimal"),
                (DIGEST, {"tokens": ["a"]}, "list of token ids"),
                (DIGEST, {}, "list of token ids"),
            ):
                status, answer = await asked(served, "PUT", f"/midfill/chunks/{path}", body)
                assert status == 400 and said in answer["error"]["message"]
            for chunks in ("no list", ["short"], [DIGEST] * 300):
                body = {"prompt": TOKENS, "midfill": {"chunks": chunks}}
                status, answer = await asked(served, "POST", "/v1/completions", body)
                assert status == 400 and "midfill.chunks" in answer["error"]["message"]
            assert not served.engine.stats().n_chunks
        async with serving(tmp_path, chunks=None) as served:
            assert (await asked(served, "PUT", f"/midfill/chunks/{DIGEST}", {"tokens": TEXT}))[1] == {"kept": False}

    run(check)


def test_a_client_sends_what_it_offers_once_and_again_what_the_engine_has_lost(tmp_path: Path) -> None:
    async def check() -> None:
        chunks, model = Chunks(1 << 16), identify(write_tiny(tmp_path / "tiny.gguf"))
        async with serving(tmp_path, model=model, backend=scripted(), chunks=chunks) as served:
            client = await HttpClient.connect(Endpoint(socket=served.socket), tmp_path, load=Loads())
            try:
                client.offer({DIGEST: TEXT})
                await until(lambda: len(chunks) == 1)
                first = text_of(await events(client.submit(GenerationRequest(1, TOKENS, n_max=32, chunks=(DIGEST,)))))
                chunks.clear()
                client.offer({DIGEST: TEXT})
                again = text_of(await events(client.submit(GenerationRequest(2, TOKENS, n_max=32, chunks=(DIGEST,)))))
                await until(lambda: len(chunks) == 1)
                assert first == again == " index = total + number\n"
            finally:
                await client.aclose()

    run(check)


def test_what_is_on_its_way_is_not_sent_again_and_few_are_kept() -> None:
    offered = Offered()
    assert offered.offer({DIGEST: TEXT}, 1.0) == {DIGEST: TEXT} and offered.offer({DIGEST: TEXT}, 2.0) == {}
    assert offered.again([DIGEST, "unheard"], 0.5, 3.0) == {}
    assert offered.again([DIGEST], 1.5, 3.0) == {DIGEST: TEXT} and offered.again([DIGEST], 2.0, 4.0) == {}
    offered.missed(DIGEST)
    assert offered.offer({DIGEST: TEXT}, 5.0) == {DIGEST: TEXT}
    offered.offer({f"{i:032}": (i,) for i in range(N_KEPT)}, 6.0)
    assert offered.again([DIGEST], 7.0, 8.0) == {} and offered.offer({DIGEST: TEXT}, 9.0) == {DIGEST: TEXT}
