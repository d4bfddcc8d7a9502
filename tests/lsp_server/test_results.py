"""What was generated before comes at once where the text is the same again, and never where it is not. Calls of the model are
counted; no time is asserted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from context.text import Edit, Text
from lsp_server.answers.results import Results, _back
from lsp_server.types import Completion
from tests.lsp_server.test_session import LINES, Bench, virtual
from tests.support.virtual import run_virtual


class Typist(Bench):
    """Edits wherever they are, and takes what is offered."""

    def __init__(self, before: str, after: str = "\n", **more: Any) -> None:
        super().__init__(before, after, **{"reply_deadline_ms": 0, "background": "off", **more})

    def edit(self, start: int, end: int, new: bytes) -> None:
        """The cursor keeps its place in the text."""
        self.text, self.version = self.text.edit(start, end, new), self.version + 1
        if end <= self.cursor:
            self.cursor += len(new) - (end - start)
        self.completer.changed(self.snapshot, (Edit(start, end, new),))

    def take(self, completion: Completion, n_characters: int | None = None) -> None:
        """Accept the item, or only so many characters behind the cursor."""
        (item,) = completion.items
        new = item.text.encode()
        if n_characters is None:
            self.edit(item.start, item.end, new)
            self.cursor = item.start + len(new)
        else:
            self.type(new[self.cursor - item.start :].decode()[:n_characters])

    async def known(self, shown: str | None, *, invoked: bool = False) -> None:
        """Asked now, this is what comes behind the cursor (None: nothing), and the model is not asked."""
        n, counters = self.n_typing(), self.client.counters()
        got = await self.ask(invoked)
        assert (self.n_typing(), self.client.counters()) == (n, counters), "the model was asked"
        behind = [item.text.encode()[self.cursor - item.start :].decode() for item in got.items]
        assert behind == ([] if shown is None else [shown]), (behind, got.reason)

    async def asks(self) -> Completion:
        """Asked now, the model is."""
        n = self.n_typing()
        got = await self.ask()
        assert self.n_typing() == n + 1, "the model was not asked"
        await self.client.idle()
        return got


BLOCK = "total = read(item)\n    value = total + 1\n    return value\n"


@virtual
async def test_after_something_else_was_typed_and_taken_back() -> None:
    b = Typist("def foo(item):\n    ", script=BLOCK)
    await b.asks()
    b.type("x")
    b.say("y = 1\n")
    await b.asks()
    b.delete(1)
    await b.known("total = read(item)\n    value = total + 1\n    return value")
    assert b.record["source"] == "known"
    b.type("tot")
    await b.known("al = read(item)\n    value = total + 1\n    return value")  # all of it, as it was shown
    b.delete(2)
    await b.known("otal = read(item)\n    value = total + 1\n    return value")
    b.type("y")  # the other answer has nothing to do with this line
    await b.asks()


@virtual
async def test_after_an_accepted_word_and_line_and_back_by_undo() -> None:
    b = Typist("def foo(item):\n    ", script=BLOCK)
    shown = await b.asks()
    b.take(shown, 5)
    await b.known(" = read(item)\n    value = total + 1\n    return value")
    b.take(await b.ask(), len(" = read(item)"))
    await b.known("\n    value = total + 1\n    return value")
    b.type("\n    ")
    await b.known("value = total + 1\n    return value")
    b.take(await b.ask(), len("value = total + 1"))
    b.type("\n    ret")
    await b.known("urn value")
    b.edit(b.text.line_start(1), b.cursor, b"    t")
    b.cursor = b.text.line_end(1)
    await b.known("otal = read(item)\n    value = total + 1\n    return value")
    b.take(await b.ask())
    await b.known(None)  # the line is complete: that is known as well
    assert b.record["reason"] == "the line is complete"


@virtual
async def test_when_the_window_has_moved_and_the_lines_with_it() -> None:
    b = Typist(LINES + "x = ", "\n" + LINES, script="total + 1\nprint(x)\n", prefix_tokens=300, suffix_tokens=100)
    await b.asks()
    b.type("total")
    home = b.cursor
    b.move(30)
    b.type("y")
    await b.asks()  # another window
    b.cursor = home + 1
    b.edit(0, 0, b"import this\nimport that\n")
    await b.known(" + 1")
    b.edit(0, 24, b"")
    b.edit(len(b.text), len(b.text), b"# behind all of it\n")
    await b.known(" + 1")
    assert b.record["source"] == "typed through"
    # what its prompt held has changed: one line above, one line below, and back again
    for at in (b.text.line_start(b.text.line_of(b.cursor) - 3), b.text.line_end(b.text.line_of(b.cursor)) + 3):
        b.edit(at, at, b"!")
        await b.asks()
        b.edit(at, at + 1, b"")
        await b.known(" + 1")


@virtual
async def test_what_began_with_the_file_still_has_to() -> None:
    b = Typist("first = 1\n" * 9 + "x = ", script="total\nprint(x)\n")
    await b.asks()
    b.edit(0, 0, b"import this\n")
    await b.asks()
    b.edit(0, 12, b"")
    await b.known("total")


@virtual
async def test_closers_behind_the_cursor_are_the_editors_own() -> None:
    b = Typist("x = foo", script="(bar)\nprint(x)\n")
    await b.asks()
    b.type("y")
    await b.asks()
    b.delete(1)
    b.type("(", behind=")")
    await b.known("bar)")


@virtual
async def test_line_ends_and_a_byte_order_mark() -> None:
    for head in ("", "\ufeff"):
        b = Typist(head + "if x:\r\n\t", "\r\nend\r\n", script="a = 1\n\tb = 2\n")
        await b.asks()
        b.type("zz")
        await b.asks()
        b.delete(2)
        await b.known("a = 1\r\n\tb = 2")
        b.type("a = 1\r\n\tb")
        await b.known(" = 2")
    b = Typist("\ufeffx = ", script="1 + 2\n")
    await b.asks()
    b.type("zz")
    await b.asks()
    b.delete(2)
    await b.known("1 + 2")


@virtual
async def test_the_answer_of_another_document_or_other_settings_is_none() -> None:
    b = Typist("x = ", script="total\n")
    await b.asks()
    b.type("y")
    await b.asks()
    b.delete(1)
    b.completer.closed("file:///a.py")
    b.completer.opened(b.snapshot)
    await b.asks()
    b.completer.configure(replace(b.config, server=replace(b.config.server, max_tokens=9)))
    await b.asks()
    await b.known("total")
    b.completer.configure(replace(b.config, server=replace(b.config.server, result_cache_bytes=0, typed_through=False)))
    await b.asks()
    await b.asks()


@virtual
async def test_who_asks_by_hand_where_nothing_is_to_say_asks_the_model() -> None:
    b = Typist("x = ", script="total\n")
    b.take(await b.asks())
    await b.known(None)
    n = b.n_typing()
    await b.ask(invoked=True)
    assert len(b.client.requests) > n


@virtual
async def test_the_end_of_what_a_limit_has_cut_is_not_relied_on() -> None:
    b = Typist("x = ", script="total + value + total + value + total + value", max_tokens=8)
    shown = await b.asks()
    (item,) = shown.items
    b.take(shown, len(item.text) - 4 - 12)
    await b.known(item.text[-12:])
    b.type(item.text[-12:-4])
    await b.asks()


@virtual
async def test_they_take_a_bounded_number_of_bytes_and_the_longest_unused_go() -> None:
    b = Typist(LINES, "", script="total\n", result_cache_bytes=12_000, prefix_tokens=80, suffix_tokens=20)
    results: Results = b.completer._learned.results
    for line in range(1, 361, 12):
        b.move(line)
        b.type(" + ")
        await b.asks()
        assert 0 < results.n_bytes <= 12_000
        if line == 1:
            first = b.cursor
        at, b.cursor = b.cursor, first
        await b.known("total")  # it stays, as it is used
        b.cursor = at
    assert 2 < len(results) < 12
    b.move(13)
    await b.asks()
    results.forget()
    assert results.n_bytes == len(results) == 0 and not results._by_line


PIECES = st.sampled_from(["t", "total", " ", "x", "\n", "(", "é", "    ", "= "])


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("type"), PIECES),
            st.tuples(st.just("delete"), st.integers(1, 4)),
            st.tuples(st.just("go"), st.integers(0, 30)),
            st.tuples(st.just("ask"), st.booleans()),
            st.tuples(st.just("wait"), st.none()),
        ),
        min_size=4,
        max_size=30,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_whatever_is_known_stands_between_what_its_prompt_held(plan: list[tuple[str, Any]], eol: str) -> None:
    """Asked with another program: the strings of the document against those of the prompt that began the answer."""

    async def scenario() -> None:
        text = f"a = 1{eol}b = 2{eol}{eol}def foo(x):{eol}    return x{eol}" * 5
        b = Typist(text, prefix_tokens=40, suffix_tokens=20, max_tokens=12)
        begun: dict[int, tuple[str, str]] = {}
        say = b.client.on_submit

        def on_submit(request: Any) -> None:
            generation_id, before = request.request_id, b.text.slice(0, b.cursor).decode()
            begun[generation_id] = before.replace("\r\n", "\n"), b.text.slice(b.cursor, len(b.text)).decode()
            say(request)

        b.client.on_submit = on_submit
        for action, value in plan:
            if action == "type":
                b.type(value.replace("\n", eol))
            elif action == "delete":
                b.delete(b.cursor - b.text.floor(max(0, b.cursor - value)))
            elif action == "go":
                b.move(min(value, b.text.n_lines - 1))
            elif action == "wait":
                await b.client.idle()
            else:
                got = await b.ask(value)
                before, after = b.text.slice(0, b.cursor).decode(), b.text.slice(b.cursor, len(b.text)).decode()
                if b.record["source"] != "known" or not got.items:
                    continue
                generation = b.completer._session("file:///a.py")._generation
                assert generation is not None and generation.request_id == got.request_id
                then_before, then_after = begun[got.request_id]
                said = [generation.typed.decode() + s.rest for s in generation.said(generation.typed)]
                prefix = generation.plan.prefix.decode()
                assert then_before.endswith(prefix + generation.typed.decode())
                now = before.replace("\r\n", "\n")
                assert any(now.endswith(prefix + whole[:n]) for whole in said for n in range(len(whole) + 1)), "another prefix"
                held = generation.plan.suffix_lines.decode()
                assert held in then_after.replace("\r\n", "\n") and held in after.replace("\r\n", "\n"), "another suffix"

    run_virtual(scenario)


def test_a_text_is_found_again_in_lines_of_any_length() -> None:
    for text in ("ab\r\ncd\r\n\r\ne", "\r\n" * 9, "plain\ntext", "é\r\né"):
        whole = Text.of(text)
        for end in [i for i in range(len(whole) + 1) if whole.floor(i) == i]:
            for start in [i for i in range(end + 1) if whole.floor(i) == i]:
                n = len(whole.slice(start, end).replace(b"\r\n", b"\n"))
                assert _back(whole, end, n) == start
