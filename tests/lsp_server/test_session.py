"""Sessions in virtual time, on the strict fake: supersede, park, adopt, typed through, deadlines, cold budget, preparation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.config import ContextConfig
from context.text import Edit, Text
from context.types import DocumentSnapshot
from inference.config import EngineConfig
from inference.types import Priority
from lsp_server.completer import Completions
from lsp_server.config import Config, ServerConfig
from lsp_server.types import Completion, CompletionQuery, Item, Selected, Superseded
from lsp_server.warm.power import Power
from tests.support.fake_backend import WORDS, FakeBackend, FakeVocab
from tests.support.virtual import InlineExecutor, SteppedClient, run_virtual

VOCAB = FakeVocab()
LINES = "".join(f"value{i} = read(item, {i})\n" for i in range(400))
LONG = " + ".join(2 * WORDS[14:])  # it goes on and on, and is no loop; and the parser takes it


# whatever is typed, wherever, the model is asked at once; when it is not is another file's business
ANYWHERE: dict[str, Any] = {
    **dict.fromkeys(("after_delete", "inside_words", "in_comments", "in_strings"), "on"), "wait_ms": 0, "back_off_ms": 0,
    "prefetch": False,
}  # fmt: skip


class Bench:
    """A document, its cursor, and the completer over a stepped engine. `script` is what the model says at the cursor."""

    def __init__(
        self, before: str, after: str = "\n", *, script: str | None = None, on_battery: bool = False, **server: Any
    ) -> None:
        context = {k: server.pop(k) for k in list(server) if k in ContextConfig.__dataclass_fields__}
        context = {"cold_budget_ms": 0, **context}
        index = server.pop("index_of_names", None)
        self.config = Config(ServerConfig(**{**ANYWHERE, **server}), ContextConfig(**context), EngineConfig())
        self.backend = FakeBackend(VOCAB, n_ctx=8192, n_batch=64)
        self.client = SteppedClient(self.backend, n_ctx=2048)
        clock, self.on_battery, self.n_looks = asyncio.get_running_loop().time, on_battery, 0
        power = Power(clock, self._look, InlineExecutor())
        self.completer = Completions(self.config, clock, InlineExecutor(), power, index)
        self.completer.attach(self.client)
        self.text = Text.of(before + after)
        self.cursor = len(before.encode())
        self.version = 1
        self.completer.opened(self.snapshot)
        self.say(script)

    def say(self, script: str | None) -> None:
        def on_submit(request: Any) -> None:
            if script is not None and request.priority is Priority.TYPING:
                want = VOCAB.encode(request.heal) + VOCAB.encode_special(script)
                self.backend.scripts[request.tokens] = want

        self.client.on_submit = on_submit

    def _look(self) -> bool:
        self.n_looks += 1
        return self.on_battery

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def snapshot(self) -> DocumentSnapshot:
        return DocumentSnapshot("file:///a.py", self.version, "python", self.text)

    def type(self, keys: str, behind: str = "") -> None:
        """Insert at the cursor; `behind` is what the editor closes automatically."""
        new = (keys + behind).encode()
        edit = Edit(self.cursor, self.cursor, new)
        self.text, self.version = self.text.edit(edit.start, edit.end, edit.new), self.version + 1
        self.cursor += len(keys.encode())
        self.completer.changed(self.snapshot, (edit,))

    def move(self, line: int) -> None:
        """To the end of a line; nobody is told."""
        self.cursor = self.text.line_end(line)

    def delete(self, n: int) -> None:
        edit = Edit(self.cursor - n, self.cursor, b"")
        self.text, self.version = self.text.edit(edit.start, edit.end, edit.new), self.version + 1
        self.cursor -= n
        self.completer.changed(self.snapshot, (edit,))

    def query(self, invoked: bool = False, selected: Selected | None = None) -> CompletionQuery:
        return CompletionQuery(self.snapshot, self.cursor, invoked, selected, self.now)

    async def ask(self, invoked: bool = False, selected: Selected | None = None) -> Completion:
        return await self.completer.complete(self.query(invoked, selected))

    def start(self, invoked: bool = False) -> asyncio.Task[Completion]:
        return asyncio.ensure_future(self.completer.complete(self.query(invoked)))

    def accept(self, completion: Completion) -> str:
        (item,) = completion.items
        assert item.start <= self.cursor <= item.end
        assert item.text.encode().startswith(self.text.slice(item.start, self.cursor))
        return self.text.edit(item.start, item.end, item.text.encode()).bytes().decode()

    def n_typing(self) -> int:
        return sum(r.priority is Priority.TYPING for r in self.client.requests)

    @property
    def record(self) -> dict[str, Any]:
        return self.completer.explain()


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def run(*args: Any, **kwargs: Any) -> None:
        run_virtual(lambda: test(*args, **kwargs))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@virtual
async def test_a_single_line_place_is_answered_at_its_first_line() -> None:
    b = Bench("def foo():\n    return val", script="ue\n    print(value)\n" * 3)
    got = await b.ask()
    assert b.accept(got) == "def foo():\n    return value\n"
    assert b.record["source"] == "generated"
    n = b.client.counters().generated
    await b.client.idle()
    assert b.client.counters().generated <= n + 1, "and ended there"


@virtual
async def test_a_block_is_answered_at_its_end() -> None:
    b = Bench("def foo():\n    ", script="value = 1\n    return value\n")
    assert b.accept(await b.ask(invoked=True)) == "def foo():\n    value = 1\n    return value\n"


@virtual
async def test_typing_what_is_shown_asks_the_model_nothing() -> None:
    b = Bench("x = ", script="total + value\nprint(x)\n", reply_deadline_ms=0)
    assert b.accept(await b.ask()) == "x = total + value\n"
    for key in "total + v":
        b.type(key)
        before, n = b.client.counters(), b.n_typing()
        assert b.accept(await b.ask()) == "x = total + value\n"
        assert (b.client.counters(), b.n_typing()) == (before, n)
    assert b.record["source"] == "typed through"
    b.type("X")
    b.say("1\n")
    assert b.accept(await b.ask()) == "x = total + vX1\n"
    assert b.n_typing() == 2


@virtual
async def test_typing_through_what_is_shown_waits_for_nothing_though_more_is_to_come() -> None:
    b = Bench("x = ", script=LONG, max_tokens=200, reply_deadline_ms=200)
    shown = b.accept(await b.ask()).removeprefix("x = ")
    assert shown.strip() and b.client.engine._runs, "it goes on"
    n, asked = b.n_typing(), b.now
    for character in shown[:3]:
        b.type(character)
        assert len(b.accept(await b.ask())) >= len("x = " + shown.rstrip()), "what is shown does not shrink"
        assert b.now - asked < 0.001
    assert b.n_typing() == n
    b.type(shown[3:])  # now there is nothing left of it: this one waits
    await b.ask()
    assert b.now - asked > 0.001


@virtual
async def test_what_came_after_the_deadline_is_offered_at_the_next_request() -> None:
    b = Bench("x = ", script="foo(bar, number, index)\n", reply_deadline_ms=200)
    first = await b.ask()
    shown = b.accept(first)
    assert "x = foo(bar, number, index)\n".startswith(shown.rstrip("\n")) and b.now <= 0.2 + 0.5
    await b.client.idle()
    n = b.n_typing()
    assert b.accept(await b.ask()) == "x = foo(bar, number, index)\n"
    assert b.n_typing() == n


@virtual
async def test_a_superseded_request_is_answered_at_once_and_its_generation_adopted() -> None:
    b = Bench("x = ", script="total + value\n", reply_deadline_ms=0)
    b_alone = await Bench("x = ", script="total + value\n", reply_deadline_ms=0).ask()
    first = b.start()
    await asyncio.sleep(0.15)
    b.type("t")
    second = b.start()
    for _ in range(5):
        await asyncio.sleep(0)
    assert isinstance(first.exception(), Superseded)
    assert b.accept(await second) == "x = total + value\n" == "x = " + b_alone.items[0].text[4:] + "\n"
    assert b.n_typing() == 1 and b.record["source"] == "adopted"


@virtual
async def test_cancel_and_ask_again_as_vs_code_does() -> None:
    b = Bench("x = ", script="total + value\n", reply_deadline_ms=0)
    for key in "tot":
        task = b.start()
        await asyncio.sleep(0.15)
        task.cancel()
        b.type(key)
        await asyncio.sleep(0.025)
    assert b.accept(await b.ask()) == "x = total + value\n"
    assert b.n_typing() == 1


@virtual
async def test_a_generation_that_is_being_ended_is_not_adopted() -> None:
    line = " + ".join(WORDS[14:24]) + "\n"
    for wait_ms in range(40, 120, 4):  # it ends 60 ms after the cancel, and says so when the step under way is over
        b = Bench("x = ", script=line, reply_deadline_ms=0)
        task = b.start()
        await asyncio.sleep(0.15)
        task.cancel()
        await asyncio.sleep(wait_ms / 1000)
        assert b.accept(await b.ask()) == "x = " + line, f"asked again after {wait_ms} ms"


@virtual
async def test_a_cancelled_request_without_successor_costs_adopt_ms_and_a_step() -> None:
    for adopt_ms in (0, 60):
        b = Bench("x = ", script=LONG, adopt_ms=adopt_ms, max_tokens=200, reply_deadline_ms=0)
        task = b.start()
        await asyncio.sleep(0.5)
        n = b.client.counters().n_steps
        task.cancel()
        await b.client.idle()
        assert b.client.counters().n_steps - n <= adopt_ms / 30 + 1
        assert task.cancelled()


@virtual
async def test_disagreement_ends_the_old_generation() -> None:
    b = Bench("x = ", script=LONG, max_tokens=200, reply_deadline_ms=0)
    first = b.start()
    await asyncio.sleep(0.4)
    b.type("9")
    b.say("0\n")
    assert b.accept(await b.ask()) == "x = 90\n"
    assert isinstance(first.exception(), Superseded)
    await b.client.idle()
    assert b.client.counters().generated <= 20


@virtual
async def test_fifty_at_once_get_one_answer_each_and_one_generation() -> None:
    b = Bench("x = ", script="value\n")
    tasks = [b.start() for _ in range(50)]
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(d, Superseded) for d in done[:-1])
    assert isinstance(done[-1], Completion) and done[-1].items
    assert b.n_typing() <= 2


@virtual
async def test_no_automatic_reply_is_later_than_its_deadline() -> None:
    b = Bench(LINES + "x = ", "\n" + LINES, script="foo " * 80 + "\n", cold_budget_ms=1500, typed_through=False)
    step_s = b.client.step_s(64)
    asked = b.now
    await b.ask()
    assert b.now - asked <= 0.4 + 1.5 + step_s
    await b.client.idle()
    for key in "foo foo foo foo":
        b.type(key)
        asked = b.now
        got = await b.ask()
        assert b.now - asked <= 0.4 + b.client.step_s(1) + 1e-6
        assert got.items


@virtual
async def test_asking_again_while_a_cold_prompt_is_evaluated_waits_for_its_text() -> None:
    b = Bench(LINES + "x = ", "\n" + LINES, script="value\n", cold_budget_ms=1500)
    first = b.start()
    await asyncio.sleep(0.2)
    second = b.start()  # the same text: the cold generation is adopted
    assert b.accept(await second).count("x = value\n") == 1
    assert isinstance(first.exception(), Superseded) and b.n_typing() == 1 and b.record["source"] == "adopted"
    assert 0.6 < b.now < 0.2 + 0.4 + 1.5 + b.client.step_s(64)


@virtual
async def test_a_cold_prompt_fits_the_budget_and_the_full_one_is_used_once_resident() -> None:
    b = Bench(LINES, LINES, script="value\n", cold_budget_ms=1500)
    for line in (200, 30):  # open and ask; then jump and ask
        b.cursor = b.text.line_end(line)
        before = b.client.counters()
        await b.ask()
        after = b.client.counters()
        assert after.prompt - before.prompt <= 1500 / 10
        small = sum(p["n_tokens"] for p in b.record["pieces"])
        await b.client.idle()
        await asyncio.sleep(0)
        b.type("  # f")
        await b.ask()
        full = sum(p["n_tokens"] for p in b.record["pieces"])
        assert b.record["n_evaluated_tokens"] <= 24 and small <= 150 < 300 < full
        await b.client.idle()


@virtual
async def test_switching_documents_keeps_both_prompts() -> None:
    b = Bench(LINES + "x = ", script="value\n")
    await b.ask()
    await b.client.idle()
    other = DocumentSnapshot("file:///b.py", 1, "python", Text.of("total = " + LINES))
    await b.completer.complete(CompletionQuery(other, 8, False, None, b.now))
    await b.client.idle()
    b.type("v")
    await b.ask()
    assert b.record["n_evaluated_tokens"] <= 2


@virtual
async def test_asking_elsewhere_ends_what_goes_on_behind_an_answer() -> None:
    b = Bench("x = ", script=LONG, max_tokens=200, reply_deadline_ms=200)
    assert (await b.ask()).items and b.client.engine._runs
    other = DocumentSnapshot("file:///b.py", 1, "python", Text.of("total = "))
    elsewhere = await b.completer.complete(CompletionQuery(other, 8, False, None, b.now))
    assert [r.request_id for r in b.client.engine._runs] == [elsewhere.request_id]
    await b.client.idle()
    # a request that is still unanswered is not touched
    first = b.start(invoked=True)
    await asyncio.sleep(0.05)
    await b.completer.complete(CompletionQuery(other, 8, False, None, b.now))
    assert (await first).items


@virtual
async def test_one_document_at_a_time_is_prepared_in_the_background() -> None:
    b = Bench(LINES + "x = ", "\n" + LINES, script="value\n", cold_budget_ms=1500, typed_through=False)
    await b.ask()
    await asyncio.sleep(1.0)
    other = DocumentSnapshot("file:///b.py", 1, "python", Text.of("total = 1\n" * 400 + "y = "))
    await b.completer.complete(CompletionQuery(other, len(other.text), False, None, b.now))
    await asyncio.sleep(1.0)
    background = [r for r in b.client.engine._runs if r.priority is Priority.BACKGROUND]
    assert len(background) == 1 and background[0].request.request_id == max(
        r.request_id for r in b.client.requests if r.priority is Priority.BACKGROUND
    )
    await b.client.idle()
    # back again: the full prompt is prepared after all
    await b.ask()
    await b.client.idle()
    b.type("v")
    await b.ask()
    assert sum(p["n_tokens"] for p in b.record["pieces"]) > 600 and b.record["n_evaluated_tokens"] <= 8


@virtual
async def test_a_long_line_is_not_prepared_again_at_every_key() -> None:
    b = Bench("total = [" + "1, " * 150, "]\n", script="2, 3\n", typed_tokens=40, typed_through=False)
    for _ in range(6):
        await b.ask()
        b.type("4, ")
        await b.client.idle()
    assert not any(r.priority is Priority.BACKGROUND for r in b.client.requests)
    # on a later line a new anchor helps, and is prepared once
    b.type("\n" + "5, " * 60)
    for _ in range(3):
        await b.ask()
        b.type("6, ")
        await b.client.idle()
    assert sum(r.priority is Priority.BACKGROUND for r in b.client.requests) == 1


@virtual
async def test_typing_costs_few_tokens_also_with_closers_behind_the_cursor() -> None:
    b = Bench(LINES[:4000], "\n" + LINES[:2000], typed_through=False, adopt_ms=0)
    await b.ask()
    costs = []
    for key, behind in [*((k, "") for k in "foo = read"), ("(", ")"), *((k, "") for k in "item["), *((k, "") for k in "index")]:
        b.type(key, behind)
        await b.ask()
        costs.append(b.record["n_evaluated_tokens"])
        assert not any(note.startswith("new plan") for note in b.record["notes"]), b.record["notes"]
    assert max(costs) <= 6 and sorted(costs)[len(costs) // 2] <= 2


@virtual
async def test_phases_add_up_to_the_total() -> None:
    b = Bench("def foo():\n    return val", script="ue\n")
    await b.ask()
    ms = dict(b.record["ms"])
    total = ms.pop("total")
    assert sum(ms.values()) == pytest.approx(total, rel=1e-6)
    assert total == pytest.approx((b.now - 0.0) * 1000)


@virtual
async def test_the_selected_popup_entry_is_extended() -> None:
    b = Bench("x = mat", "\n", script=".pi\n")
    got = await b.ask(selected=Selected(4, 7, "math"))
    assert got.items == (Item(4, 7, "math.pi"),)


@virtual
async def test_an_item_in_a_very_long_line_does_not_repeat_it() -> None:
    b = Bench("x = [" + "1, " * 2000, "]\n", script="2\n")
    (item,) = (await b.ask()).items
    assert (item.start, item.text) == (b.cursor, "2")


@virtual
async def test_silence_has_a_reason() -> None:
    b = Bench("x = 1", script="\nfoo\n")
    assert (await b.ask()).reason == b.record["reason"] == "the line is complete"
    b.completer.pause(5)
    assert (await b.ask()).reason == "paused"
    await asyncio.sleep(301)
    b.type(" ")
    assert (await b.ask()).reason != "paused"
    b.completer.configure(replace(b.config, server=replace(b.config.server, enabled=False)))
    assert "switched off" in (await b.ask()).reason
    fresh = Completions(b.config, asyncio.get_running_loop().time, InlineExecutor())
    assert (await fresh.complete(b.query())).reason == "the model is still loading"


@virtual
async def test_typing_costs_only_what_is_new_in_every_healed_layout() -> None:
    for layout, n_behind in (("anchored", 0), ("spm", 1), ("ltr", 0)):  # tokens behind the typed text, evaluated each time
        b = Bench(LINES[:2000] + "x = ", "\n" + LINES[:500], script="zz\n", layout=layout, typed_through=False, adopt_ms=0)
        await b.ask()
        for key in ("total", " + ", "value", " "):
            b.type(key)
            await b.ask()
            assert b.record["n_evaluated_tokens"] <= 5 + n_behind, (layout, key, b.record)
            assert b.record["layout"] == layout


@virtual
async def test_a_layout_the_model_can_not_do_silences_it_until_another_is_set() -> None:
    b = Bench("x = ", script="total\n")
    only_psm = replace(VOCAB.fim, spm=None)
    b.client.vocab.fim, kept = only_psm, VOCAB.fim
    try:
        b.completer.configure(replace(b.config, context=replace(b.config.context, layout="spm")))
        got = await b.ask()
        assert not got.items and "the layout spm would give nonsense" in got.reason
        assert "the layout spm" in b.record["reason"]
        b.completer.configure(replace(b.config, context=replace(b.config.context, layout="psm")))
        assert b.accept(await b.ask()) == "x = total\n"
    finally:
        b.client.vocab.fim = kept


@virtual
async def test_the_model_is_told_the_path_below_the_workspace_folder() -> None:
    fim = VOCAB.fim
    repo, file = (VOCAB.control["<|repo_name|>"], "R"), (VOCAB.control["<|file_sep|>"], "F")
    VOCAB.fim = replace(fim, header=(repo, "{repository}\n", file, "{path}\n"))
    try:
        b = Bench("x = ", script="total\n")
        b.completer.roots = lambda: ("/",)
        for told, wanted in ((True, b"\na.py\n"), (False, b"")):
            b.completer.configure(replace(b.config, context=replace(b.config.context, file_header=told)))
            b.type("zz ")  # not what was suggested
            await b.ask()
            tokens = b.client.requests[-1].tokens
            assert VOCAB.text(tokens[: tokens.index(VOCAB.control["<|fim_prefix|>"])]) == wanted
    finally:
        VOCAB.fim = fim


@virtual
async def test_crlf_and_tabs_are_the_documents_own() -> None:
    b = Bench("if x:\r\n\t", "\r\nend\r\n", script="a = 1\n\tb = 2\n\n\tother")
    assert b.accept(await b.ask(invoked=True)) == "if x:\r\n\ta = 1\r\n\tb = 2\r\n\r\n\tother\r\nend\r\n"
    assert all(b"\r" not in VOCAB.text(r.tokens) for r in b.client.requests)


@virtual
async def test_closing_leaves_nothing_running() -> None:
    b = Bench(LINES + "x = ", "\n" + LINES, script="foo " * 80, cold_budget_ms=1500)
    task = b.start()
    await asyncio.sleep(0.1)
    b.completer.closed("file:///a.py")
    with pytest.raises(Superseded):
        await task
    await b.client.idle()
    assert b.client.counters().n_steps < 12


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("type"), st.sampled_from(["t", "o", "total", " ", "(", "x", "\n", "é"])),
            st.tuples(st.just("delete"), st.integers(1, 3)),
            st.tuples(st.just("ask"), st.booleans()),
            st.tuples(st.just("cancel"), st.none()),
            st.tuples(st.just("wait"), st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.5, 1.0, 3.0])),
        ),
        min_size=3,
        max_size=30,
    ),
    st.sampled_from(["auto", "auto", "spm", "ltr", "psm"]),
)
def test_any_interleaving_offers_what_its_first_request_would_have_been_offered(
    plan: list[tuple[str, Any]], layout: str
) -> None:
    """Adopted and typed-through texts are the uninterrupted generation of the request that began them, less what was typed."""

    async def scenario() -> None:
        b = Bench("def foo(item):\n    x = ", "\n" + LINES[:500], reply_deadline_ms=0, layout=layout)
        begun: list[tuple[str, Any]] = []
        tasks: list[asyncio.Task[Completion]] = []

        def on_submit(request: Any) -> None:
            begun.append((b.text.slice(0, b.cursor).decode(), request))

        b.client.on_submit = on_submit
        for action, value in plan:
            if action == "type":
                b.type(value)
            elif action == "delete" and b.cursor > 30:
                b.delete(b.cursor - b.text.floor(b.cursor - 1))
            elif action == "ask":
                tasks.append(b.start(value))
                await asyncio.sleep(0)
            elif action == "cancel" and tasks:
                tasks[-1].cancel()
            elif action == "wait":
                await asyncio.sleep(value)
        last = await b.ask()
        before = b.text.slice(0, b.cursor).decode()
        await b.client.idle()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(d, (Completion, Superseded, asyncio.CancelledError)) for d in done)
        if not last.items:
            return
        accepted = b.accept(last)[len(before) :]
        # the request that began the text, alone on a fresh engine
        typed, request = next((t, r) for t, r in begun if r.request_id == last.request_id)
        alone = SteppedClient(FakeBackend(VOCAB, n_ctx=8192, n_batch=64), n_ctx=2048)
        stream, event = alone.submit(request), None
        wholes = dict.fromkeys(range(request.n_candidates), typed)
        while event is None or event.finish is None:
            event = await stream.next()
            wholes[event.candidate] += event.text
        assert before.startswith(typed)
        rests = [whole[len(before) :] for whole in wholes.values() if whole.startswith(before)]
        # blanks aside: indentation becomes the document's
        offered = "".join(accepted.split("\n", 1)[0].split())
        said = ["".join(rest.split()) for rest in rests]
        word = re.findall(r"\w*\Z", before)[0]  # where the model says it again, it is not offered again
        assert any(each.startswith((offered, word + offered)) for each in said)

    run_virtual(scenario)
