"""The protocol's promises: one answer per request, silence about the user's text, nothing kills the loop."""

from __future__ import annotations

import asyncio
import logging

import pytest
from lsprotocol import types

from lsp_server.types import Superseded
from tests.lsp_server.conftest import House, Script, build
from tests.support.client import (
    CANCELLED,
    CONTENT_MODIFIED,
    INVALID_PARAMS,
    Json,
    frame,
    in_loop,
    inline_params,
    span,
)

URI = "file:///w/app/main.py"


def fail(error: BaseException) -> Script:
    def reply(_query: object) -> None:
        raise error

    return Script(reply=reply)  # type: ignore[arg-type]


@in_loop
async def test_capabilities_are_static_and_incremental(house: House) -> None:
    async with house.client() as client:
        capabilities = (await client.initialize())["result"]["capabilities"]
        assert "inlineCompletionProvider" in capabilities
        assert capabilities["textDocumentSync"]["change"] == 2
        assert capabilities["positionEncoding"] == "utf-16"
        assert set(capabilities["executeCommandProvider"]["commands"]) == {
            "midfill.explain", "midfill.accepted", "midfill.pause",
        }  # fmt: skip
        await client.settle()
        assert not client.of_method("client/registerCapability")


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (("utf-8", "utf-16"), "utf-8"),
        (("utf-32",), "utf-32"),
        (("utf-7", "utf-16"), "utf-16"),
        (("x",), "utf-16"),
        (None, "utf-16"),
    ],
)
@in_loop
async def test_the_clients_first_known_encoding_is_taken(offered: tuple[str, ...] | None, chosen: str) -> None:
    house = build()
    async with house.client() as client:
        answer = await client.initialize(encodings=offered)
        assert answer["result"]["capabilities"]["positionEncoding"] == chosen


@in_loop
async def test_an_item_has_range_text_and_command(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "é = 🦊")
        answer = await client.inline(URI, 0, 6)
        assert answer["result"]["items"] == [
            {
                "insertText": "é = 🦊x",
                "range": span(0, 0, 0, 6),
                "command": {"title": "Suggestion accepted", "command": "midfill.accepted", "arguments": [6]},
            }
        ]
        await client.command("midfill.accepted", 6)
        assert house.script.of("accepted") == [("accepted", 6)]


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"textDocument": {"uri": URI}},
        {"textDocument": {"uri": URI}, "position": {"line": -1, "character": 0}, "context": {"triggerKind": 2}},
        {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}, "context": {"triggerKind": 9}},
        {"textDocument": {"uri": 5, "x": []}, "position": {"line": {}, "character": 0}, "context": {"triggerKind": 2}},
    ],
)
@in_loop
async def test_invalid_params_are_answered(params: object) -> None:
    house = build()
    async with house.client() as client:
        await client.initialize()
        answer = await client.request("textDocument/inlineCompletion", params)
        assert answer["error"]["code"] == INVALID_PARAMS
        client.open(URI, "a")
        assert (await client.inline(URI, 0, 1))["result"]["items"]
        assert set(client.answers.values()) == {1}


@in_loop
async def test_unknown_methods(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.notify("midfill/unknown", {"a": 1})
        assert (await client.request("textDocument/hover", {"bad": 1}))["error"]["code"] == -32601
        assert (await client.request("no/such", None))["error"]["code"] == -32601


@in_loop
async def test_ids_come_back_as_they_were(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        for msg_id in ("7", 7, "a b", 0, -1):
            client.ask("no/such", msg_id=msg_id)
        await client.settle()
        assert all(client.answers[msg_id] == 1 for msg_id in ("7", 7, "a b", 0, -1))


@in_loop
async def test_an_id_in_use_is_refused_and_the_first_request_lives(house: House) -> None:
    house.script.gate = asyncio.Event()
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        client.ask("textDocument/inlineCompletion", inline_params(URI, 0, 1), msg_id=70)
        client.ask("textDocument/inlineCompletion", inline_params(URI, 0, 1), msg_id=70)
        first = await client.answer(70)
        assert first["error"]["code"] == -32600
        house.script.gate.set()
        await client.until(lambda m: m.get("id") == 70 and "result" in m)
        assert len(house.script.queries) == 1


@pytest.mark.parametrize("error", [RuntimeError("secret code"), KeyError("x"), OSError(5, "io"), RecursionError()])
@in_loop
async def test_a_failing_completion_is_an_empty_list_with_a_reason(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    house = build(fail(error))
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a = ")
        assert (await client.inline(URI, 0, 4))["result"] == {"items": []}
        told = (await client.command("midfill.explain"))["result"]
        assert type(error).__name__ in told["reason"]
        house.script.reply = Script().reply
        await client.inline(URI, 0, 4)
        assert (await client.command("midfill.explain"))["result"] == {"reason": "from the script"}
        assert not client.of_method("window/showMessage")
    assert "secret" not in caplog.text
    assert "Traceback" not in caplog.text


@in_loop
async def test_superseded_is_content_modified_and_nobody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    house = build(fail(Superseded()))
    caplog.set_level(logging.INFO)
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        await client.settle()
        caplog.clear()
        assert (await client.inline(URI, 0, 1))["error"]["code"] == CONTENT_MODIFIED
        assert not client.of_method("window/showMessage")
        assert not caplog.records


@in_loop
async def test_cancel_repeated_and_unknown(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """cancel-02"""
    house.script.gate = asyncio.Event()
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "v = ")
        asked = client.ask_inline(URI, 0, 4)
        await client.settle()
        caplog.clear()
        for msg_id in (asked, asked, 999, "999"):
            client.cancel(msg_id)
        client.notify("$/cancelRequest", {"id": None})
        client.notify("$/cancelRequest", {"id": [1]})
        client.notify("$/cancelRequest")
        assert (await client.answer(asked))["error"]["code"] == CANCELLED
        client.cancel(asked)
        await client.settle()
        assert client.answers[asked] == 1
        assert house.script.n_cancelled == 1
        assert not caplog.records


@in_loop
async def test_a_cancel_in_the_same_write_reaches_the_request_before_it_begins(house: House) -> None:
    """cancel-01"""
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "v = ")
        await client.settle()
        params = inline_params(URI, 0, 4)
        asks: list[Json] = [{"id": 100 + i, "method": "textDocument/inlineCompletion", "params": params} for i in range(5)]
        cancels: list[Json] = [{"method": "$/cancelRequest", "params": {"id": 100 + i}} for i in range(4)]
        body = b"".join(frame({"jsonrpc": "2.0", **m}) for m in (*asks, *cancels))
        # straight into the protocol: a pipe may deliver the first half alone
        for part in body.split(b"Content-Length: ")[1:]:
            house.server.protocol.feed(part.partition(b"\r\n\r\n")[2], 0.0)
        assert "result" in await client.answer(104)
        assert [(await client.answer(100 + i))["error"]["code"] for i in range(4)] == [CANCELLED] * 4
        assert len(house.script.queries) == 1
        assert all(client.answers[100 + i] == 1 for i in range(5))


@in_loop
async def test_fifty_requests_with_random_ends_are_each_answered_once(house: House) -> None:
    house.script.gate = asyncio.Event()
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "v = ")
        asked = [client.ask_inline(URI, 0, 4) for _ in range(50)]
        for msg_id in asked[::3]:
            client.cancel(msg_id)
        await client.settle()
        house.script.gate.set()
        for msg_id in asked:
            await client.answer(msg_id)
        await client.settle()
        assert [client.answers[msg_id] for msg_id in asked] == [1] * 50


@in_loop
async def test_the_snapshot_is_the_one_at_the_requests_place_in_the_stream(house: House) -> None:
    """sync-order-01, sync-order-02: a change behind the request in the same write does not reach it."""
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "")
        insert = {"range": span(0, 0, 0, 0), "text": "x"}
        changed = {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [insert]}
        client.send(
            {"id": 30, "method": "textDocument/inlineCompletion", "params": inline_params(URI, 0, 1)},
            {"method": "textDocument/didChange", "params": changed},
            {"id": 40, "method": "textDocument/inlineCompletion", "params": inline_params(URI, 0, 1)},
        )
        assert "result" in await client.answer(30)
        assert "result" in await client.answer(40)
        seen = [(query.snapshot.text.bytes(), query.offset) for query in house.script.queries]
        assert seen == [(b"", 0), (b"x", 1)]
        assert house.script.queries[0].snapshot.version < house.script.queries[1].snapshot.version


@in_loop
async def test_two_changes_of_one_notification_apply_in_order_before_the_request(house: House) -> None:
    """sync-order-01"""
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "def f(a):\n    return a\n")
        client.change(
            URI,
            {"range": span(0, 6, 0, 7), "text": "alpha"},
            {"range": span(1, 11, 1, 12), "text": "alpha"},
        )
        await client.inline(URI, 1, 16)
        query = house.script.queries[-1]
        assert query.snapshot.text.slice(0, query.offset) == b"def f(alpha):\n    return alpha"


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello\r\n\r\n",
        frame(b"{not json"),
        frame(b"\xff\xfe{}"),
        frame(b"[" * 100_000),
        frame([1, 2]),
        frame("text"),
        frame({"jsonrpc": "2.0"}),
        frame({"jsonrpc": "2.0", "id": [1], "method": "shutdown"}),
        frame({"jsonrpc": "2.0", "id": "who", "result": 1}),
        frame({"jsonrpc": "2.0", "id": "who", "error": "bad"}),
        frame({"jsonrpc": "2.0", "method": "textDocument/didOpen"}),
        frame({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": 3}}),
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n",
        b"Content-Length: -5\r\n\r\n",
        b"Content-Length: 4\r\n\r\n{}  rest of a body that was longer than told",
        b"content-length:2\n\n{}",
        b"\0" * 70_000 + b"\r\n",
    ],
)
@in_loop
async def test_garbage_is_passed_over(garbage: bytes) -> None:
    house = build()
    async with house.client() as client:
        await client.initialize()
        client.send_bytes(garbage)
        client.open(URI, "a")
        assert (await client.inline(URI, 0, 1))["result"]["items"]
        assert client.stray == b""


@in_loop
async def test_life_cycle_errors(house: House) -> None:
    async with house.client() as client:
        client.open(URI, "early")  # before initialize: dropped
        assert (await client.inline(URI, 0, 0))["error"]["code"] == -32002
        await client.initialize()
        assert house.store.find(URI) is None
        assert (await client.initialize())["error"]["code"] == -32600
        await client.request("shutdown")
        assert (await client.inline(URI, 0, 0))["error"]["code"] == -32600


@in_loop
async def test_shutdown_answers_everything_and_exit_is_zero(house: House) -> None:
    house.script.gate = asyncio.Event()
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        asked = [client.ask_inline(URI, 0, 1) for _ in range(10)]
        client.send({"id": "s", "method": "shutdown"}, {"method": "exit"})
        assert await asyncio.shield(client.serving) == 0
        for msg_id in asked:
            assert (await client.answer(msg_id))["error"]["code"] == CANCELLED
        assert (await client.answer("s"))["result"] is None
        assert set(client.answers.values()) == {1}
    assert house.script.calls[-1] == ("aclose",)


@in_loop
async def test_a_completion_that_ignores_its_cancel_is_answered_at_the_end(house: House) -> None:
    stubborn = asyncio.Event()

    async def complete(_query: object) -> None:
        while True:
            try:
                await stubborn.wait()
                return
            except asyncio.CancelledError:
                continue

    async def aclose() -> None:
        stubborn.set()  # the completion ends after all, while we are leaving
        await asyncio.sleep(0.01)

    house.script.complete = complete  # type: ignore[assignment, method-assign]
    house.script.aclose = aclose  # type: ignore[method-assign]
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        asked = client.ask_inline(URI, 0, 1)
        await client.settle()
        await client.shutdown()
        assert (await client.answer(asked))["error"]["code"] == CANCELLED
    assert client.answers[asked] == 1


@in_loop
async def test_exit_without_shutdown_and_a_closed_pipe_are_one() -> None:
    first, second, third = build(), build(), build()
    async with first.client() as client:
        await client.initialize()
        client.notify("exit")
        assert await asyncio.shield(client.serving) == 1
    async with second.client() as client:
        await client.initialize()
        client.hang_up()
        assert await asyncio.shield(client.serving) == 1
    async with third.client() as client:
        await client.initialize()
        await client.request("shutdown")
        client.hang_up()
        assert await asyncio.shield(client.serving) == 0


@in_loop
async def test_a_late_answer_to_a_cancelled_request_of_ours_does_not_raise(caplog: pytest.LogCaptureFixture) -> None:
    """startup-blocking-02 (second half)"""
    house = build()
    async with house.client(configuration=None) as client:
        await client.initialize()
        await client.settle()
        future = house.server.protocol.send_request_async("workspace/configuration", types.ConfigurationParams(items=[]))
        asked = await client.until(lambda m: m.get("method") == "workspace/configuration")
        future.cancel()
        await asyncio.sleep(0)
        client.send({"id": asked["id"], "result": []}, {"id": asked["id"], "error": {"code": -1, "message": "late"}})
        await client.settle()
        client.open(URI, "a")
        assert (await client.inline(URI, 0, 1))["result"]["items"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@in_loop
async def test_ids_of_both_directions_do_not_mix(house: House) -> None:
    house.script.gate = asyncio.Event()
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        asked = client.ask_inline(URI, 0, 1)
        client.send({"id": asked, "result": "an answer to our own question"})
        await client.settle()
        house.script.gate.set()
        assert (await client.answer(asked))["result"]["items"]


@in_loop
async def test_no_text_in_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    house = build(fail(ValueError("zz-secret-zz")))
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "zz-secret-zz")
        client.change(URI, {"range": span(0, 3, 0, 1), "text": "zz-secret-zz"})
        client.notify("textDocument/didChange", {"textDocument": {"uri": URI}, "contentChanges": "zz-secret-zz"})
        client.notify("textDocument/didOpen", {"textDocument": "zz-secret-zz"})
        await client.inline(URI, 0, 2)
        await client.request("textDocument/inlineCompletion", {"textDocument": "zz-secret-zz"})
        await client.command("zz-secret-zz")
    assert "zz-secret-zz" not in caplog.text
    assert not logging.getLogger("pygls.protocol.json_rpc").isEnabledFor(logging.ERROR)


@in_loop
async def test_initialize_survives_capabilities_that_lsprotocol_refuses(house: House) -> None:
    async with house.client() as client:
        odd = {"textDocument": {"completion": 17}, "window": {"workDoneProgress": True, "showDocument": 5}}
        answer = await client.initialize(encodings=("utf-8",), capabilities=odd)
        assert answer["result"]["capabilities"]["positionEncoding"] == "utf-8"
        assert house.server.protocol.client_capabilities.window.work_done_progress is True  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
@in_loop
async def test_a_result_that_is_no_json_is_an_error_not_silence(value: object) -> None:
    house = build()
    house.script.explain = lambda: {"a": value}  # type: ignore[method-assign]
    async with house.client() as client:
        await client.initialize()
        assert (await client.command("midfill.explain"))["error"]["code"] == -32603


@in_loop
async def test_commands_tolerate_their_arguments(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        arguments: tuple[object, ...]
        for arguments in ((), (None,), (5,), (0,), (0.5,)):
            assert (await client.command("midfill.pause", *arguments))["result"] is None
        assert [minutes for _, minutes in house.script.of("pause")] == [float("inf"), float("inf"), 5, 0, 0.5]
        assert (await client.command("midfill.pause", 10**400))["result"] is None
        await client.until(lambda m: m.get("method") == "midfill/status" and m["params"]["state"] == "paused")
        for arguments in (("x",), (-1,), (True,)):
            assert (await client.command("midfill.pause", *arguments))["error"]["code"] == INVALID_PARAMS
        for arguments in ((), ("7",), (None,), (True,), (7, 8)):
            assert (await client.command("midfill.accepted", *arguments))["result"] is None
        assert house.script.of("accepted") == [("accepted", 7)]
        bare = await client.request("workspace/executeCommand", {"command": "midfill.explain"})
        assert bare["result"] == {"reason": "from the script"}
        assert (await client.command("midfill.nothing"))["error"]["code"] == INVALID_PARAMS


@in_loop
async def test_received_is_when_the_message_was_read(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "a")
        before = asyncio.get_running_loop().time()
        await client.inline(URI, 0, 1)
        await client.inline(URI, 0, 1, invoked=True)
        first, second = house.script.queries
        assert before <= first.received <= second.received <= asyncio.get_running_loop().time()
        assert (first.invoked, second.invoked) == (False, True)


@in_loop
async def test_selected_completion_info_as_bytes(house: House) -> None:
    async with house.client() as client:
        await client.initialize()
        client.open(URI, "é.pri")
        await client.inline(URI, 0, 5, selected={"range": span(0, 2, 0, 5), "text": "print"})
        selected = house.script.queries[-1].selected
        assert selected is not None
        assert (selected.start, selected.end, selected.text) == (3, 6, "print")


@in_loop
async def test_a_burst_larger_than_a_pipe_both_ways() -> None:
    house = build()
    async with house.client() as client:
        await client.initialize()
        line = "v" * 2000
        client.open(URI, f"{line}\n" * 1000)
        asked = [client.ask_inline(URI, i, 2000) for i in range(100)]
        for msg_id in asked:
            assert (await client.answer(msg_id))["result"]["items"][0]["insertText"] == line + "x"

