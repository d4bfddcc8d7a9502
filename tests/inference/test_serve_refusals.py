"""Wrong keys, web pages, huge and slow bodies, garbage, clients that never read: refused, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.serve.app import make_application
from inference.serve.limits import Limits
from inference.serve.listen import on_tcp
from inference.types import EngineError, GenerationRequest
from tests.inference.test_engine import alone
from tests.support.served import KEY, Served, error_of, post, run, serving, until

PAGES = ["/health", "/metrics", "/v1/models", "/midfill/hello", "/midfill/vocab", "/midfill/lease"]
POSTS = ["/v1/completions", "/midfill/reusable", "/midfill/cancel", "/midfill/drain", "/midfill/stop"]


async def still_well(served: Served) -> None:
    """Another client is answered as if it were alone."""
    async with served.session() as session:
        body = {"prompt": [1, 2, 3], "max_tokens": 5, "temperature": 0}
        async with session.post("/v1/completions", json=body) as response:
            answer = json.loads(await response.read())
    assert answer["choices"][0]["text"] == alone(GenerationRequest(1, (1, 2, 3), n_max=5))[0]
    await served.idle()


WRONG = [None, "", "Bearer", "Bearer " + KEY[:-1], "Bearer " + KEY + "k", "bearer " + KEY, "Basic " + KEY, KEY, "Bearer k\xe9"]


@pytest.mark.parametrize("header", WRONG)
def test_without_the_key_nothing_is_told(tmp_path: Path, header: str | None) -> None:
    async def main() -> None:
        async with serving(tmp_path, tcp=True) as served:
            line = "" if header is None else f"Authorization: {header}\r\n"
            for path in PAGES:
                answer = await served.raw(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{line}\r\n".encode("latin-1"))
                assert error_of(answer)[0] == 401 and b"WWW-Authenticate: Bearer" in answer
            for path in POSTS:
                answer = await served.raw(post(path, b'{"prompt":"x"}', line.replace("\xe9", "?")))
                assert error_of(answer) == (401, "The key is missing or wrong.")
            assert not served.told and served.gate.n_steps == 0
            await still_well(served)

    run(main)


@pytest.mark.parametrize("tcp", [True, False])
def test_web_pages_are_refused(tmp_path: Path, tcp: bool) -> None:
    async def main() -> None:
        async with serving(tmp_path, tcp=tcp) as served:
            headers = f"Authorization: Bearer {KEY}\r\nOrigin: https://evil.example\r\n"
            assert error_of(await served.raw(post("/midfill/stop", b"{}", headers)))[0] == 403
            if tcp:  # a name that somebody else's name server points to loopback
                answer = await served.raw(
                    f"GET /midfill/hello HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
                )
                assert error_of(answer) == (403, "This engine answers only to the names of loopback.")
            assert not served.told
            await still_well(served)

    run(main)


def test_tcp_needs_a_key() -> None:
    async def main() -> None:
        app = make_application(
            None, version="1", on_drained=lambda: None, on_stop=lambda: None  # type: ignore[arg-type]
        )
        for host in ("127.0.0.1", "0.0.0.0", "::1"):
            with pytest.raises(EngineError, match="--api-key-file"):
                await on_tcp(app, host, 0)

    run(main)


def test_a_port_that_is_taken_and_an_address_that_is_not_ours(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, tcp=True) as served:
            app = make_application(
                served.host, version="1", on_drained=lambda: None, on_stop=lambda: None, key=KEY
            )
            port = int(served.listening.address.rpartition(":")[2])
            with pytest.raises(EngineError, match="in use"):
                await on_tcp(app, "127.0.0.1", port)
            with pytest.raises(EngineError, match="Can't listen on 192"):
                await on_tcp(app, "192.0.2.1", 0)

    run(main)


def test_unknown_pages_and_methods(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            for method, path, status, says in (
                ("GET", "/nothing", 404, "no such page"), ("GET", "/", 404, "no such page"),
                ("GET", "/v1/completions", 405, "POST"), ("POST", "/health", 405, "GET"), ("PUT", "/midfill/stop", 405, "POST"),
                ("GET", "/midfill/vocab/" + "0" * 64, 404, "another vocabulary"), ("GET", "/midfill/../health", 200, ""),
                ("GET", "/v1/completions/../../etc/passwd", 404, "no such page"),
            ):  # fmt: skip
                async with session.request(method, path) as response:
                    assert response.status == status
                    if status != 200:
                        assert says in json.loads(await response.read())["error"]["message"]
            async with session.head("/health") as response:
                assert response.status == 405
            await still_well(served)

    run(main)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"), (b"{", "not JSON"), (b"\xff\xfe\x00", "UTF-8"), (b'{"prompt":NaN}', "NaN"), (b"[1]", "object"),
        (b'{"prompt":' + b"[" * 5000, "nested"), (b'{"prompt":"x","max_tokens":' + b"9" * 400 + b"}", "max_tokens"),
        (b'{"prompt":"x","max_tokens":' + b"9" * 5000 + b"}", "not JSON"), (b'{"prompt":"x","top_p":1e999}', "top_p"),
        (b'{"prompt":"\\ud83d"}', "surrogate"), (b"null", "object"), (b'"x"', "object"),
    ],
)  # fmt: skip
def test_bodies_that_can_not_be_read(tmp_path: Path, body: bytes, says: str) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            for path in ("/v1/completions", "/midfill/reusable", "/midfill/cancel"):
                async with session.post(path, data=body) as response:
                    answer = json.loads(await response.read())
                    assert response.status == 400
                    sentence = answer["error"]["message"]
                    assert sentence.endswith(".") and "\n" not in sentence
                    assert says in sentence or path != "/v1/completions"
            await still_well(served)

    run(main)


def test_a_body_may_have_so_many_bytes_and_no_more(tmp_path: Path) -> None:
    limits = Limits(body_bytes=3000, linger_s=0.2)

    async def main() -> None:
        async with serving(tmp_path, limits=limits) as served:
            async with served.session() as session:
                body = json.dumps({"prompt": [1], "max_tokens": 1, "user": ""}).encode()
                fits = body.replace(b'""', b'"%b"' % (b"x" * (3000 - len(body))))
                assert len(fits) == 3000
                async with session.post("/v1/completions", data=fits) as response:
                    assert response.status == 200
                async with session.post("/v1/completions", data=fits + b" ") as response:
                    assert response.status == 413
                    assert "more than 3,000 bytes" in json.loads(await response.read())["error"]["message"]
            # announced and never sent; sent without being announced
            head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
            assert error_of(await served.raw(head + b"Content-Length: 9000000000\r\n\r\n"))[0] == 413
            chunks = b"3e8\r\n" + b" " * 1000 + b"\r\n"
            assert error_of(await served.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks * 4))[0] == 413
            await still_well(served)

    run(main)


def test_what_no_prompt_needs_is_not_read(tmp_path: Path) -> None:
    assert Limits().body_bytes_for(4096) < 400_000 and Limits().body_bytes_for(1 << 20) == Limits().body_bytes == 8 << 20

    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            for size, status in ((90_000, 400), (200_000, 413)):
                async with session.post("/v1/completions", json={"prompt": "x" * size}) as response:
                    assert response.status == status
            await still_well(served)

    run(main)


def test_packed_bodies_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            for name in ("gzip", "deflate", "br", "zstd"):
                async with session.post("/v1/completions", data=b"\x1f\x8b", headers={"Content-Encoding": name}) as response:
                    assert response.status == 415
            await still_well(served)

    run(main)


def test_slow_clients_lose_their_connection(tmp_path: Path) -> None:
    limits = Limits(body_s=0.1, idle_s=0.15, linger_s=0.05)

    async def main() -> None:
        async with serving(tmp_path, limits=limits) as served:
            late = await served.raw(b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"prom')
            assert error_of(late) == (408, "The body did not arrive within 0.1 seconds.")
            for beginning in (b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: "):
                assert await served.raw(beginning) == b""  # closed without a word
            await until(lambda: not served.parts.doors[0].n_connections)
            await still_well(served)

    run(main)


def test_a_body_whose_framing_breaks_on_the_way(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, limits=Limits(linger_s=0.05, body_s=0.3)) as served:
            reader, writer = await served.connect()
            writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
            await until(lambda: any(c._request_in_progress for c in served.parts.doors[0]._server.connections))
            writer.write(b"zz\r\n")
            status, sentence = error_of(await reader.read())
            assert status in (400, 408) and sentence.endswith(".")  # which one depends on the parser
            writer.close()
            # the end of a client in the middle of its body is no news for anybody
            for rest in (b"Content-Length: 50\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"):
                await served.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + rest, reads=False)
            await still_well(served)

    run(main)


GARBAGE = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    b"\x00" * 500 + b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 500 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n{}",
    b"\r\n" * 1000,
]


def test_garbage_is_refused_and_not_quoted_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    secret = b"sEcReT"

    async def main() -> None:
        async with serving(tmp_path, limits=Limits(idle_s=0.2, linger_s=0.05, body_s=0.2)) as served:
            for garbage in GARBAGE:
                answer = await served.raw(garbage)
                if answer:
                    status, sentence = error_of(answer)
                    assert 400 <= status < 500 and sentence.endswith("."), (garbage[:40], answer)
            for quoted in (
                b"GET /" + secret + b"\x01 HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n" + secret + b"\r\n\r\n",
                post("/v1/completions", b'{"prompt":"' + secret + b'","max_tokens":-1}'),
                post("/v1/completions", b'{"prompt":' + secret),
                post("/v1/completions", b'{"prompt":"' + secret + b'","max_tokens":1}'),
                b"GET /" + secret + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            ):  # fmt: skip
                await served.raw(quoted + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await still_well(served)

    run(main)
    assert secret.decode() not in caplog.text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=5))
def test_any_bytes_leave_the_others_alone(tmp_path: Path, pieces: list[bytes]) -> None:
    async def main() -> None:
        async with serving(tmp_path, limits=Limits(idle_s=0.1, linger_s=0.02, body_s=0.1)) as served:
            await asyncio.gather(*(served.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" * (i % 2) + p)
                                   for i, p in enumerate(pieces)))  # fmt: skip
            await still_well(served)

    run(main)


def test_a_client_that_never_reads_is_cut_off_and_its_request_ends(tmp_path: Path) -> None:
    limits = Limits(write_s=0.3, quiet_s=0.5)

    async def main() -> None:
        async with serving(tmp_path, limits=limits, n_ctx=3000) as served:
            served.gate.step_s = 0.0002
            mute = socket.socket(socket.AF_UNIX)
            mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            mute.connect(str(served.socket))
            prompt, n_pipelined = [7] * 5, 12
            served.backend.script_always = lambda tokens: 65 if tokens[:5] == (7,) * 5 else None  # without end
            body = json.dumps({"prompt": prompt, "max_tokens": 2900, "temperature": 0, "stream": True}).encode()
            mute.sendall(post("/v1/completions", body) * n_pipelined)
            await until(lambda: len(served.parts.running) == 1)
            await still_well_beside(served)
            # the first one may end before its client's buffers are full; then the next one runs into them
            await until(lambda: not served.parts.doors[0].n_connections, 40)
            await served.idle()
            mute.close()
            await still_well(served)

    run(main)


async def still_well_beside(served: Served) -> None:
    async with served.session() as session:
        body = {"prompt": [1, 2, 3], "max_tokens": 5, "temperature": 0}
        async with session.post("/v1/completions", json=body) as response:
            text = json.loads(await response.read())["choices"][0]["text"]
    assert text == alone(GenerationRequest(1, (1, 2, 3), n_max=5))[0]


def test_two_hundred_quick_connections(tmp_path: Path) -> None:
    async def one(served: Served, i: int) -> int:
        async with served.session() as session:
            if i % 3 == 0:
                return (await session.get("/health")).status
            async with session.post("/v1/completions", json={"prompt": [i, 2], "max_tokens": 2}) as response:
                return response.status

    async def main() -> None:
        limits = replace(Limits(), n_running=256, n_running_per_peer=256)
        async with serving(tmp_path, limits=limits) as served:
            assert set(await asyncio.gather(*(one(served, i) for i in range(200)))) == {200}
            await served.idle()
            await until(lambda: not served.parts.doors[0].n_connections)
            await still_well(served)

    run(main)


@pytest.mark.parametrize("limits", [Limits(n_connections=4), Limits(n_connections_per_peer=4)])
def test_connections_are_limited_and_places_are_given_back(tmp_path: Path, limits: Limits) -> None:
    async def main() -> None:
        async with serving(tmp_path, limits=limits) as served:
            held = [await served.connect() for _ in range(4)]
            await until(lambda: served.parts.doors[0].n_connections == 4)
            reader, writer = await served.connect()
            assert error_of(await reader.read()) == (503, "There are too many connections; close some.")
            writer.close()
            for _, writer in held:
                writer.close()
            await until(lambda: not served.parts.doors[0].n_connections)
            await still_well(served)

    run(main)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_of_the_machine_gets_nothing(tmp_path: Path) -> None:
    """Even where somebody has opened the directory and the socket to all."""
    connect = (
        "import os,socket,sys; os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        "s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(b'GET /midfill/hello HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); sys.stdout.buffer.write(s.recv(9999))"
    )

    def as_somebody_else(path: Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([sys.executable, "-I", "-c", connect, str(path)], capture_output=True)

    async def main() -> None:
        async with serving(tmp_path) as served:
            assert served.socket is not None
            refused = await asyncio.to_thread(as_somebody_else, served.socket)
            assert refused.returncode and b"PermissionError" in refused.stderr
            os.chmod(served.socket, 0o666)
            for directory in (served.socket.parent, *served.socket.parent.parents):
                if directory.stat().st_uid == 0 and not directory.stat().st_mode & 0o001:
                    opened.append((directory, directory.stat().st_mode))
                    os.chmod(directory, 0o711)
            answer = (await asyncio.to_thread(as_somebody_else, served.socket)).stdout
            assert error_of(answer) == (403, "This engine belongs to another user of this machine; start your own.")
            await still_well(served)

    opened: list[tuple[Path, int]] = []
    try:
        run(main)
    finally:
        for directory, mode in opened:
            os.chmod(directory, mode)


def test_a_handler_that_fails_tells_nobody_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with serving(tmp_path) as served, served.session() as session:
            def fail(tokens: object) -> int:
                raise RuntimeError("sEcReT")

            served.host.n_reusable = fail  # type: ignore[method-assign, assignment]
            async with session.post("/midfill/reusable", json={"tokens": [1]}) as response:
                assert response.status == 500
                assert json.loads(await response.read())["error"]["message"] == "The engine's server failed; its log says more."
            served.host.counters = fail  # type: ignore[method-assign, assignment]
            with pytest.raises(aiohttp.ClientPayloadError):  # in the middle of a stream: the connection is broken off
                async with session.post("/v1/completions", json={"prompt": [1], "max_tokens": 1, "stream": True}) as response:
                    await response.read()
            del served.host.counters
            await still_well(served)

    run(main)
    assert "sEcReT" not in caplog.text and "RuntimeError" in caplog.text
