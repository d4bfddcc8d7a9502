"""Pieces of other places in prompts: found in a real index, in virtual time, on the strict fake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context.config import ContextConfig
from context.plan import make_plan
from context.symbol_types import Import
from context.text import Edit, Text
from context.tokens import TokenTable
from context.types import DocumentSnapshot, Limits
from inference.types import Costs, Priority
from lsp_server.completer import Completions
from lsp_server.config import Config, ServerConfig
from lsp_server.index.reader import Reader
from lsp_server.index.rows import Defined, FileRow, UsedIn
from lsp_server.plans.layouts import choose_layout, file_name
from lsp_server.plans.prompting import Prompter
from lsp_server.types import CompletionQuery
from lsp_server.uris import document_id, path_of
from tests.index.conftest import House, write_all
from tests.support.fake_backend import FakeBackend, FakeVocab
from tests.support.virtual import InlineExecutor, SteppedClient, run_virtual

VOCAB = FakeVocab()
IDLE_S = 0.8

SHOP = '''"""Shop."""


class Cart:
    """A basket of things."""

    def __init__(self, owner, limit=10):
        self.owner = owner
        self.items = []

    def add(self, item, count=1):
        """Put it in, unless the cart is full."""
        self.items.append((item, count))
        return not self.is_full()


def checkout(cart, *, coupon=None):
    """What it costs in all."""
    key = "AKIAZ4XQ7MPL2RT9WBNC"
    return sum(cart.items)
'''
POST = '''def send(parcel, *, express=False):
    """By post."""
    return parcel


def weigh(parcel, unit="kg"):
    return parcel.weight
'''
FILLER = "".join(f"value{n} = read(item, {n})\n" for n in range(30))
MAIN = f"""from post import send, weigh
from shop import Cart, checkout

{FILLER}

def buy(name, items):
    cart = Cart(name)
    for item in items:
        cart.add(item)
    return checkout(cart)


{FILLER}

def ship(cart):
    parcel = weigh(cart)
    send(parcel)
    return parcel
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A workspace whose index is filled in this process; what the user's git ignores does not count."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    root = tmp_path.resolve() / "ws"
    root.mkdir()
    return House(root, tmp_path.resolve() / "cache")


class StoreIndex:
    """A store's reader, asked in this thread."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.n_asked = 0

    def covers(self, doc_id: str) -> bool:
        return bool(self.reader.relative(path_of(doc_id)))

    async def definitions_of(self, name: str, most: int = 200) -> tuple[Defined, ...]:
        self.n_asked += most > 1  # one is asked for by `called_names`, beside a request
        await asyncio.sleep(0.001)
        return self.reader.definitions_of(name, most)

    async def uses_of(self, name: str, most: int = 200) -> tuple[UsedIn, ...]:
        return self.reader.uses_of(name, most)

    async def symbols_in(self, doc_id: str) -> FileRow | None:
        return self.reader.symbols_in(path_of(doc_id))

    async def resolve(self, doc_id: str, language: str, one: Import) -> tuple[str, ...]:
        return self.reader.resolve(path_of(doc_id), language, one)


class Bench:
    """A workspace with its index, an engine that steps, and one open document with a cursor."""

    def __init__(
        self, house: House, name: str = "main.py", *, files: dict[str, str] | None = None, n_ctx: int = 2048, **context: Any
    ) -> None:
        write_all(house.root, files or {"shop.py": SHOP, "post.py": POST, "main.py": MAIN})
        house.fill()
        self.root = str(house.root)
        self.client = SteppedClient(
            FakeBackend(VOCAB, n_ctx=8192, n_batch=64), n_ctx=n_ctx, costs=Costs(8.0, 30.0, on_cpu=False)
        )
        self.config = Config(
            ServerConfig(adopt_ms=0, typed_through=False, n_candidates=1, max_tokens=16),
            ContextConfig(**{"cold_budget_ms": 0, **context}),
        )
        self.index = StoreIndex(house.reader())
        self.private: set[str] = set()
        clock = asyncio.get_running_loop().time
        self.completer = Completions(self.config, clock, InlineExecutor(), index=self.index)
        self.completer.roots = lambda: (self.root,)
        self.completer.why_private = lambda doc_id: "private" if path_of(doc_id).rpartition("/")[2] in self.private else ""
        self.completer.attach(self.client)
        self.open(name)

    def open(self, name: str, text: str | None = None, language: str = "python") -> None:
        self.doc_id = document_id(f"file://{self.root}/{name}")
        self.language = language
        self.text = Text.of(Path(self.root, name).read_text() if text is None else text)
        self.version = 1
        self.cursor = len(self.text)
        self.completer.opened(self.snapshot)

    @property
    def snapshot(self) -> DocumentSnapshot:
        return DocumentSnapshot(self.doc_id, self.version, self.language, self.text)

    def move(self, behind: str) -> None:
        self.cursor = self.text.bytes().index(behind.encode()) + len(behind.encode())

    def type(self, keys: str) -> None:
        edit = Edit(self.cursor, self.cursor, keys.encode())
        self.text, self.version = self.text.edit(edit.start, edit.end, edit.new), self.version + 1
        self.cursor += len(keys.encode())
        self.completer.changed(self.snapshot, (edit,))

    async def ask(self) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        query = CompletionQuery(self.snapshot, self.cursor, True, None, now)
        await self.completer.complete(query)
        record = self.completer.explain()
        record["prompt"] = VOCAB.text(self.foreground[-1].tokens).decode() if self.foreground else ""
        return record

    @property
    def foreground(self) -> list[Any]:
        return [request for request in self.client.requests if request.priority is Priority.TYPING]

    async def rest(self, seconds: float = IDLE_S) -> None:
        await asyncio.sleep(seconds)
        await self.client.idle()

    @property
    def zones(self) -> str:
        book = self.completer.references.book(self.doc_id)
        return "" if book.wanted is None else b"".join(text for _, text in book.wanted.files).decode()


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[[House], None]:
    def run(house: House) -> None:
        run_virtual(lambda: test(house))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def ids(record: dict[str, Any]) -> list[str]:
    return [each["id"] for each in record["pieces"] if each["id"]]


@virtual
async def test_what_is_used_near_the_cursor_stands_in_front_of_the_prefix(house: House) -> None:
    b = Bench(house)
    b.move("return checkout(cart")
    await b.rest()
    record = await b.ask()
    prompt = record["prompt"]
    assert '# shop.py\n# class Cart:\n#     """A basket of things."""\n' in prompt
    assert "#     def add(self, item, count=1):\n" in prompt and "# def checkout(cart, *, coupon=None):\n" in prompt
    assert prompt.index("# shop.py") < prompt.index("from post import") < prompt.index("return checkout(")
    assert "AKIA" not in prompt and "REDACTED" in prompt, "secrets of other files stay there"
    names = {each["name"]: each["n_tokens"] for each in record["pieces"] if each["name"] in ("reference", "prefix")}
    assert names["reference"] > 20 and sum(each["n_tokens"] for each in record["pieces"]) == len(b.foreground[-1].tokens)
    assert all(each["path"] for each in record["pieces"] if each["id"])
    assert record["choice"]["why"] and set(record["choice"]["n_sent"].values()) == {1}


@virtual
async def test_without_an_index_or_switched_off_prompts_are_those_of_the_file_alone(house: House) -> None:
    b = Bench(house, references=False)
    alone = Completions(b.config, asyncio.get_running_loop().time, InlineExecutor())
    alone.roots = lambda: (b.root,)
    alone.attach(b.client)
    alone.opened(b.snapshot)
    for place in ("return checkout(cart", "parcel = weigh("):
        b.move(place)
        await b.rest()
        await b.ask()
        await alone.complete(CompletionQuery(b.snapshot, b.cursor, True, None, asyncio.get_running_loop().time()))
        first, second = b.foreground[-2:]
        assert first.tokens == second.tokens and first.heal == second.heal
    assert b.index.n_asked == 0 and not b.completer.references.is_on


@virtual
async def test_no_key_changes_the_pieces_and_a_request_asks_nobody(house: House) -> None:
    b = Bench(house)
    b.move("return checkout(cart")
    await b.rest()
    await b.ask()
    await b.rest(2.0)
    before, pieces, n = b.zones, ids(await b.ask()), b.index.n_asked
    assert before
    for i, key in enumerate("\n    value = read(item, cart)\n    total = foo + bar * index\n    " * 4):
        b.type(key)
        asked = b.index.n_asked
        record = await b.ask()
        assert b.zones == before and ids(record) == pieces, f"key {i}"
        assert b.index.n_asked == asked or i > 150
        await asyncio.sleep(0.12)
    assert i >= 200
    assert b.index.n_asked <= n + 60


@virtual
async def test_moving_between_two_functions_and_back_reuses_what_was_there(house: House) -> None:
    tools = [f"tool{n}" for n in range(14)]
    body = "".join(
        f"    {name} = read(item, {k}) + foo * bar\n" for k, name in enumerate(("one", "two", "three", "four", "five"))
    )
    files = {
        "tools.py": "".join(f"def {name}(item, count, *, {name}_key=None):\n{body.replace('one', name)}\n\n" for name in tools),
        "shop.py": SHOP, "post.py": POST, "main.py": f"from tools import {', '.join(tools)}\n{MAIN}",
    }  # fmt: skip
    b = Bench(house, files=files, n_ctx=4096)
    first, second = "return checkout(", "parcel = weigh("
    for place in (first, second):
        b.move(place)
        await b.ask()
        await b.rest(2.0)
        await b.ask()
        await b.rest(2.0)
    n_prompt = n_reused = 0
    for place in (first, second, first, second):
        b.move(place)
        record = await b.ask()
        n_prompt, n_reused = n_prompt + record["n_prompt_tokens"], n_reused + record["n_reused_tokens"]
        await b.rest(2.0)
    assert n_prompt > 2000 and n_reused >= 0.9 * n_prompt, f"{n_reused} of {n_prompt}"


@virtual
async def test_a_jump_costs_at_most_the_cold_budget_and_the_better_prompt_comes_later(house: House) -> None:
    b = Bench(house, cold_budget_ms=800)  # 100 tokens
    b.move("return checkout(cart")
    cold = await b.ask()
    assert cold["n_evaluated_tokens"] <= 100 and not ids(cold)
    await b.rest(30.0)
    warm = await b.ask()
    assert any("shop.py" in each for each in ids(warm)) and warm["n_evaluated_tokens"] <= 100
    text = warm["prompt"]
    assert "def checkout(cart, *, coupon=None)" in text
    for place in ("weigh(cart", "cart = Cart(na", "send(parcel"):
        b.move(place)
        assert (await b.ask())["n_evaluated_tokens"] <= 100
    await b.rest(30.0)
    assert any("post.py" in each for each in ids(await b.ask()))


@virtual
async def test_what_becomes_private_is_in_no_further_prompt(house: House) -> None:
    b = Bench(house)
    b.move("return checkout(cart")
    await b.rest()
    assert "shop.py" in (await b.ask())["prompt"]
    b.private.add("shop.py")  # and nobody tells
    assert "class Cart" not in (await b.ask())["prompt"]
    b.private.clear()
    b.completer.look_again(forget=True)
    await b.rest(2.0)
    assert "class Cart" in (await b.ask())["prompt"]
    b.private.add("shop.py")
    b.completer.look_again(forget=True)
    assert "class Cart" not in (await b.ask())["prompt"]
    await b.rest(2.0)
    record = await b.ask()
    assert "class Cart" not in record["prompt"] and "shop.py" not in " ".join(ids(record))


@virtual
async def test_the_record_says_enough_to_make_the_plan_again(house: House) -> None:
    b = Bench(house, n_ctx=700)
    b.move("return checkout(cart")
    await b.rest()
    record = await b.ask()
    state = record["plan"]
    zones = b.completer.references.book(b.doc_id).wanted
    assert zones is not None and zones.digest == state["zones"] and [each.id for each in zones.pieces] == state["pieces"]
    n_prefix, n_suffix, n_total = state["limits"]
    table = TokenTable(VOCAB, VOCAB.pre_type, VOCAB.pieces)
    plan = make_plan(
        b.snapshot, b.cursor, Limits(n_prefix, n_suffix, n_total, state["fill"]), table, choose_layout("auto", VOCAB, "fake"),
        file=file_name(b.doc_id, (b.root,)), zones=zones, tree=b.completer.trees.of(b.snapshot),
    )  # fmt: skip
    assert plan.tokens == b.foreground[-1].tokens[: state["n_stable_tokens"]] and plan.state == state
    assert any(note.startswith("cut: ") for note in record["notes"]) and len(b.foreground[-1].tokens) <= n_total


@virtual
async def test_a_prompt_without_an_engine_is_the_one_with_it_and_fits_a_budget(house: House) -> None:
    b = Bench(house)
    b.move("return checkout(cart")
    b.completer.references.forget(b.doc_id)
    await b.completer.found(b.snapshot, b.cursor)
    await b.ask()
    config = Config(b.config.server, replace(b.config.context, cold_budget_ms=0))
    sizes = []
    for n_tokens in (0, 300, 120):
        for full in (True, False):
            context = replace(config.context, prompt_tokens=n_tokens, references=full)
            prompter = Prompter(VOCAB, "fake", 2048, replace(config, context=context), b.index, [b.root], pool=InlineExecutor())
            made = await prompter.prompt(b.snapshot, b.cursor)
            prompter.close()
            assert bool(made.why) is full and (full or made.plan.zones is None)
            assert not n_tokens or len(made.prompt.tokens) <= n_tokens
            sizes.append(made.plan.n_zones)
            if full and not n_tokens:
                assert made.prompt.tokens == b.foreground[-1].tokens
    assert sizes[0] > sizes[2] > 0 and sizes[1] == sizes[3] == 0


@virtual
async def test_callers_rules_changes_and_other_open_documents(house: House) -> None:
    files = {
        "shop.py": SHOP, "main.py": MAIN, "post.py": POST, ".midfill/rules.md": "Never use print.\n",
        "use.py": "from main import ship\n\n\ndef run(cart):\n    label = ship(cart)\n    return label\n",
    }  # fmt: skip
    b = Bench(house, "post.py", files=files)
    b.move("    return parcel.weight")
    b.type(" * 2")
    b.open("main.py")
    b.completer.references.forget(b.doc_id)  # what was looked for when nobody knew a cursor
    b.move("    send(parcel")
    await b.ask()
    await b.rest(2.0)
    record = await b.ask()
    prompt = record["prompt"]
    assert "# .midfill/rules.md\n# Never use print.\n" in prompt and prompt.index("rules.md") < prompt.index("# use.py")
    assert "# def run(cart):\n" in prompt and "#     label = ship(cart)\n" in prompt
    assert "# -    return parcel.weight\n# +    return parcel.weight * 2\n" in prompt
    kinds = [each.partition(":")[0] for each in ids(record)]
    assert kinds[0] == "rules" and kinds[-1] == "edit" and "caller" in kinds and "definition" in kinds


@virtual
async def test_a_function_edited_elsewhere_in_the_file_is_core(house: House) -> None:
    b = Bench(house, files={"main.py": MAIN.replace(FILLER, FILLER * 12)}, n_ctx=1400, prefix_tokens=200)
    b.move("    for item in items:\n        cart.add(item")
    b.type(", 2")
    b.move("    send(parcel")
    await b.ask()
    await b.rest(1.0)
    record = await b.ask()
    core = [each for each in record["pieces"] if each["name"] == "core" and each["id"].startswith("edited")]
    assert core and "buy" in core[0]["why"] and "#         cart.add(item, 2)\n" in record["prompt"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\1\2\xff" * 300,
        "x=1;" * 9000,
        "def f(:\n  class\n((((" * 40,
        "(" * 3000,
        "[" * 2000 + "]" * 2000,
        "\n" * 3000,
        "\r\r\n\u2028" * 50,
    ],
    ids=["empty", "binary", "minified", "broken", "deep", "nested", "blank", "odd line ends"],
)
def test_whatever_a_file_holds_there_is_a_plan(house: House, text: str) -> None:
    async def run() -> None:
        b = Bench(house, files={"odd.py": text, "shop.py": SHOP, "main.py": MAIN}, n_ctx=512)
        b.open("odd.py", text)
        for at in (len(b.text), len(b.text) // 2, 0):
            b.cursor = b.text.floor(at)
            await b.rest(1.0)
            record = await b.ask()
            assert record["reason"] != "internal error" and record["n_prompt_tokens"] > 0
            assert len(b.foreground[-1].tokens) + 16 <= 512
        b.open("data.json", "{}", "json")  # a language without comments
        await b.rest(1.0)
        record = await b.ask()
        assert not ids(record) and record["choice"]["why"] == "none: a json file has no comments to hold them"

    run_virtual(run)


@virtual
async def test_late_answers_hold_up_no_request_and_errors_cost_pieces_only(house: House) -> None:
    b = Bench(house)
    b.move("return checkout(cart")

    async def late(*_: object) -> tuple[Defined, ...]:
        await asyncio.sleep(600)
        return ()

    b.completer.references.forget()
    b.index.definitions_of = late  # type: ignore[method-assign, assignment]
    began = asyncio.get_running_loop().time()
    assert (await b.ask())["prompt"] and asyncio.get_running_loop().time() - began < 60
    await b.rest(5.0)
    assert not b.zones

    async def broken(*_: object) -> tuple[Defined, ...]:
        raise OSError

    b.completer.references.forget()
    b.index.definitions_of = broken  # type: ignore[method-assign, assignment]
    await b.rest(5.0)
    assert (await b.ask())["prompt"] and not b.zones
    b.completer.configure(replace(b.config, context=replace(b.config.context, references=False)))
    assert not b.completer.references.is_on
    await b.completer.aclose()
