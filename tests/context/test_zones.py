"""Pieces of other places: what is chosen under a budget, in which order it stands, and when a choice is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.budget import Sizes, choose_pieces, own_demand, zone_limits
from context.fim import render
from context.plan import make_plan
from context.symbols import symbols_of
from context.syntax import NoTree, parse
from context.text import Edit, Text
from context.types import DocumentSnapshot, FileName, Limits, Plan, Prompt
from context.zones.edits import diff_lines, touched
from context.zones.focus import definition_at, focus_of, names_around, names_in
from context.zones.heads import heads
from context.zones.information import droppable, is_protected
from context.zones.likeness import Shingled, normalized, shingles
from context.zones.pieces import FileText, candidate
from context.zones.stability import keep_or_change, value
from context.zones.types import Around, Candidate, Part, ZoneLimits, Zones
from context.zones.wrapping import FILES, Wrapping, wrapping
from tests.context.conftest import ANCHORED, decode, new_table

HASH = Wrapping("comments", "#")
ROOMY = ZoneLimits(400, 4000, 400, 4000)
NOWHERE = Around()


def piece(name: str, *lines: str, points: int = 100, path: str = "", **more: object) -> Candidate:
    parts = (Part("A", (f"def {name}(item):",)), Part("B", lines)) if lines else (Part("A", (f"def {name}(item):",)),)
    made = Candidate("reference", "definition", path or f"{name}.py", name, parts, points, "used near the cursor")
    return replace(made, **more)  # type: ignore[arg-type]


def text_of(zones: Zones) -> str:
    return b"".join(text for _, text in zones.files).decode()


candidates = st.lists(
    st.builds(
        lambda i, zone, lines, others, points, file: Candidate(
            zone, "definition", f"f{file}.py", f"name{i}",
            (Part("A", (f"def name{i}(a):",)), Part("D", (f"    says {i}",)), Part("B", tuple(lines)),
             Part("C", tuple(f"def other{n}():" for n in range(others)), tuple(f"other{n}" for n in range(others)))),
            points, "because", start=i,
        ),
        st.integers(0, 30), st.sampled_from(["core", "reference", "rolling"]),
        st.lists(st.text("abc =#é\n".replace("\n", ""), min_size=1, max_size=60), max_size=9), st.integers(0, 5),
        st.integers(-5, 300), st.integers(0, 3),
    ),
    max_size=14,
)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(candidates, st.integers(0, 400), st.sampled_from(["#", FILES, "/*"]), st.randoms())
def test_a_choice_fits_is_counted_exactly_and_depends_on_no_order(
    found: list[Candidate], n: int, how: str, random: object
) -> None:
    table = new_table()
    wrap = {"#": HASH, FILES: Wrapping(FILES), "/*": Wrapping("comments", "", "/*", "*/")}[how]
    limits = ZoneLimits(n // 4, n, n // 5, n)
    made = choose_pieces(found, limits, table, wrap, NOWHERE)
    assert made.n_tokens <= n and sum(each.n_tokens for each in made.pieces) == made.n_tokens
    if how == FILES:
        assert made.n_tokens == sum(1 + len(table.encode(f"{path}\n".encode() + text)) for path, text in made.files)
    else:
        assert made.n_tokens == len(table.encode(b"".join(text for _, text in made.files)))
    for each in made.pieces:  # a piece that is there has its signature
        assert f"def {each.name}(a):" in each.lines
    keys = [each.key for each in made.pieces]
    assert len(keys) == len(set(keys))
    shuffled = list({each.key: each for each in sorted(found, key=lambda c: (c.points, c.version))}.values())
    twice = choose_pieces(shuffled, limits, table, wrap, NOWHERE)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_pieces(shuffled, limits, table, wrap, NOWHERE) == twice


def test_c_is_folded_before_bodies_and_bodies_go_before_signatures() -> None:
    table = new_table()
    body = tuple(f"    value{n} = alpha{n} + beta{n}" for n in range(6))
    whole = replace(
        piece("first", *body), parts=(Part("A", ("class First:",)), Part("D", ("    Says.",)), Part("B", body),
                                      Part("C", ("def aa():", "def bb():", "def cc():"), ("aa", "bb", "cc"))),
    )  # fmt: skip
    second = piece("second", *body[:3], points=90)
    n = choose_pieces([whole, second], ROOMY, table, HASH, NOWHERE).n_tokens
    seen = []
    for limit in range(n, 0, -1):
        made = choose_pieces([whole, second], ZoneLimits(0, limit, 0, limit), table, HASH, NOWHERE)
        said = text_of(made)
        state = (
            "def aa():" in said, "... aa, bb, cc" in said, all(line.strip() in said for line in body), "value0" in said,
            "Says." in said, len(made.pieces),
        )  # fmt: skip
        if not seen or seen[-1] != state:
            seen.append(state)
        assert len(made.pieces) < 2 or "class First:" in said
        if limit < n:
            assert made.cuts or not made.pieces
    assert seen[0] == (True, False, True, True, True, 2)
    assert seen[1] == (False, True, True, True, True, 2), "C is folded first, and nothing else is cut yet"
    n_both = [state for state in seen if state[5] == 2]
    assert n_both[-1] == (False, False, False, False, False, 2), "signatures stay when all else is gone"


def test_what_stands_around_the_cursor_and_what_is_said_twice_stays_out() -> None:
    body = tuple(f"    total{n} = count(item, {n})" for n in range(6))
    around = Around("\n".join(("x = 1", *body[:5], "y = 2")))
    copy = replace(piece("twin", *body, points=50), path="other.py", parts=(Part("A", body),))
    other = replace(copy, name="again", points=40)
    made = choose_pieces([piece("near", *body)], ROOMY, new_table(), HASH, around)
    assert not made.pieces and made.cuts == ("near: more than half of it stands around the cursor",)
    made = choose_pieces([copy, other], ROOMY, new_table(), HASH, NOWHERE)
    assert [each.name for each in made.pieces] == ["twin"] and made.cuts == ("again: another piece says the same",)
    assert choose_pieces([piece("near", *body)], ROOMY, new_table(), HASH, Around("\n".join(body[:2]))).pieces


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c d", "e"]), max_size=12), st.integers(1, 4))
def test_rolling_hashes_are_those_of_each_run(lines: list[str], size: int) -> None:
    runs = {tuple(lines[i : i + size]) for i in range(len(lines) - size + 1)}
    assert len(shingles(lines, size)) == len(runs)
    for run in runs:
        assert shingles(list(run), size) <= shingles(lines, size)


def test_likeness_looks_at_words_only() -> None:
    assert normalized(["  # def f(x):", "}", "", "return  x ;"]) == ["def f(x)", "return x"]
    assert Shingled(["a = 1"]).share_in(Shingled(["// a  = 1;"])) == 1.0
    assert Shingled(["}"]).share_in(Shingled(["}"])) == 0.0


def test_lines_that_deny_sign_or_hold_a_name_are_never_dropped() -> None:
    lines = [
        "x = 1",
        "if not ready:",
        "x = 1",
        "def run(self):",
        "x = 1",
        "call(frob)",
        "x = 1",
        "raise Bad",
        "x = 1",
        "alpha beta gamma",
    ]
    names = frozenset({"frob"})
    gone = droppable(lines, names)
    assert gone and all(lines[i] == "x = 1" for i in gone)
    for line in ("return None", "# never do this", "!ok", "export const x = 1", "  @cached", "call(frob)", "without it"):
        assert is_protected(line, names), line
    assert not is_protected("frobnicate = 1", names)


def test_what_stood_there_keeps_its_place_in_front_of_what_is_new() -> None:
    table = new_table()
    old = choose_pieces([piece("b", points=90), piece("a", points=100)], ROOMY, table, HASH, NOWHERE)
    assert [each.name for each in old.pieces] == ["b", "a"], "the best stands nearest to the cursor"
    rules = Candidate("rolling", "rules", "rules.md", "rules", (Part("A", ("Be brief.",)),), 1000, "rules")
    edit = Candidate("rolling", "edit", "z.py", "change", (Part("A", ("-a", "+b")),), 60, "edit")
    more = [edit, rules, piece("a", points=100), piece("c", points=95), piece("b", points=200)]
    made = choose_pieces(more, ROOMY, table, HASH, NOWHERE, previous=old)
    assert [each.name for each in made.pieces] == ["rules", "b", "a", "c", "change"]
    assert text_of(made).startswith("# rules.md\n# Be brief.\n" + text_of(old))


def test_an_old_choice_is_kept_while_it_is_worth_most_of_the_best() -> None:
    table = new_table()
    found = [piece("a", points=100), piece("b", points=100), piece("c", points=60)]
    old = choose_pieces(found[:2], ROOMY, table, HASH, NOWHERE)
    best = choose_pieces(found, ROOMY, table, HASH, NOWHERE)
    assert (value(old, found), value(best, found)) == (200, 260)
    assert keep_or_change(best, [old], found)[0] is best
    nearly = [*found[:2], piece("c", points=50)]
    kept, why = keep_or_change(choose_pieces(nearly, ROOMY, table, HASH, NOWHERE), [old], nearly)
    assert kept is old and why == "kept: worth 80 % of the best"
    changed = [replace(found[0], parts=(Part("A", ("def a(item, more):",)),)), *found[1:2]]
    fresh = choose_pieces(changed, ROOMY, table, HASH, NOWHERE)
    assert keep_or_change(fresh, [old], changed)[0] is fresh, "a piece that is another by now says something wrong"
    elsewhere = [piece("d", points=80)]
    other = choose_pieces(elsewhere, ROOMY, table, HASH, NOWHERE)
    assert keep_or_change(other, [best, old], elsewhere)[0] is other
    assert keep_or_change(best, [other, best], found) == (best, "it is the best one")
    assert keep_or_change(best, [other, old], nearly)[1].startswith("taken again")


def test_limits_follow_from_the_prompt_the_file_and_the_machine() -> None:
    sizes = Sizes(400, 1500, 300)
    assert zone_limits(4000, 1900, sizes, 4000).n_total == 2100 // 64 * 64
    assert zone_limits(1024, 1900, sizes, 4000).n_total == 384
    assert zone_limits(1024, 300, sizes, 4000).n_total == 704
    assert zone_limits(4000, 1900, sizes, 200).n_total == 192
    assert zone_limits(100, 90, sizes, 4000).n_total == 40 and zone_limits(0, 0, sizes, 0).n_total == 0
    assert own_demand(10_000_000, 1756) == 1756 + 64 and own_demand(0, 1756) < own_demand(2000, 1756) < 1000


SHOP = '''"""Shop."""
import os

TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Cart(Base):
    """A basket. It holds things."""

    limit: int = 10

    def __init__(self, owner, key="AKIAZ4XQ7MPL2RT9WBNC"):
        self.owner = owner

    def add(self, item, count=1):
        """Put it in.

        Unless it is full.
        """
        if len(self.items) >= self.limit:
            return False
        self.items.append(item)
        return True

    def total(self): return 1

    def _hidden(self):
        pass


def pay(
    cart,
    coupon=None,
):
    # never twice
    return cart.total()
'''


def shop(name: str, names: frozenset[str] = frozenset(), text: str = SHOP) -> Candidate:
    definitions = symbols_of("python", SHOP.encode()).definitions
    definition = next(each for each in definitions if each.name == name)
    return candidate(
        definition, definitions, FileText(text.encode(), "python"), path="shop.py", points=1, why="used", names=names
    )  # fmt: skip


def graded(made: Candidate) -> list[tuple[str, tuple[str, ...]]]:
    return [(part.grade, part.lines) for part in made.parts]


def test_a_class_shows_its_constructor_its_fields_and_the_members_in_use() -> None:
    assert graded(shop("Cart", frozenset({"add"}))) == [
        ("A", ("class Cart(Base):",)),
        ("D", ('    """A basket. It holds things."""',)),
        ("B", ("    limit: int = 10",)),
        ("E", ('    def __init__(self, owner, key="REDACTED"):',)),
        ("B", ("        self.owner = owner",)),
        ("A", ("    def add(self, item, count=1):",)),
        ("D", ('        """Put it in.', '        Unless it is full."""')),
        ("B", ("        if len(self.items) >= self.limit:", "            return False", "        self.items.append(item)",
               "        return True")),
        ("C", ("    def total(self): return 1",)),
    ]  # fmt: skip


def test_a_function_shows_its_signature_as_written_and_a_method_its_class() -> None:
    assert graded(shop("pay"))[0] == ("A", ("def pay(", "    cart,", "    coupon=None,", "):"))
    method = shop("add")
    assert graded(method)[:3] == [
        ("A", ("class Cart(Base):",)), ("A", ("    def add(self, item, count=1):",)),
        ("D", ('        """Put it in.', '        Unless it is full."""')),
    ]  # fmt: skip
    assert method.name == "Cart.add"
    assert all("ghp_" not in line for part in shop("TOKEN").parts for line in part.lines)


def test_of_a_file_that_has_changed_only_the_signature_is_told() -> None:
    assert graded(shop("pay", text="\n\n" + SHOP)) == [("A", ("def pay( cart, coupon=None, ):",))]


ODD = {
    "empty": ("python", b""),
    "binary": ("python", bytes(range(256)) * 40 + b"\ndef f():\n    return 1\n"),
    "broken": ("python", SHOP.encode()[:300] + b"((((\n" + SHOP.encode()[300:-40]),
    "minified": ("javascript", b"class A{" + b"m(a,b){return a+b}" * 3000 + b"}"),
    "huge": ("python", b"class Huge:\n" + b"".join(b"    def m%d(self):\n        return %d\n" % (i, i) for i in range(6000))),
    "nested": ("python", b"".join(b"%sclass C%d:\n" % (b" " * i, i) for i in range(90)) + b" " * 90 + b"x = 1\n"),
    "deep": ("javascript", b"function f() {\n" + b"(" * 4000 + b"1" + b")" * 4000 + b"\n}\n"),
    "bodies": ("go", b"type T struct {\n" * 50 + b"}\n" * 10),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_give_pieces_that_fit_or_none(name: str) -> None:
    language, data = ODD[name]
    definitions = symbols_of(language, data).definitions
    other = FileText(data[: len(data) // 2], language)  # a file that has changed since it was looked at
    found = [
        candidate(each, definitions, text, path=f"{i}", points=100 + i, why="used", names=frozenset({"f", "m1", "C3"}))
        for i, text in enumerate((FileText(data, language), other, None))
        for each in (*definitions[:8], *definitions[-4:])
    ]
    assert bool(found) == bool(definitions)
    assert all(len(line) < 500 for each in found for part in each.parts for line in part.lines)
    assert all(sum(len(part.lines) for part in each.parts) < 200 for each in found)
    made = choose_pieces(found, ZoneLimits(40, 150, 40, 150), new_table(), HASH, NOWHERE)
    assert made.n_tokens <= 150


def test_comments_and_files_hold_what_a_language_allows() -> None:
    assert wrapping("comments", "json") is None and wrapping("comments", "nonsense") is None
    go = wrapping("comments", "go")
    assert go is not None and go.text("a.go", ["func A()", ""]) == b"// a.go\n// func A()\n//\n"
    html = wrapping("comments", "html")
    assert html is not None and html.text("a", ["x --> y"]).count(b"-->") == 1
    files = wrapping(FILES, "json")
    assert files is not None and files.text("a", ["b"]) == b"b\n"


BODY = "".join(f"        value{n} = read(item, {n})\n" for n in range(40))
LONG = f"import os\n\n\nclass Cart:\n    def first(self):\n{BODY}\n    def second(self, item):\n        if item:\n    {BODY}"


def test_heads_of_what_encloses_the_cursor_outside_the_window() -> None:
    text = Text.of(LONG + "        last = 1\n        ")
    tree = parse("python", text)
    assert not isinstance(tree, NoTree)
    table = new_table()
    end = len(text)
    window = end - 60
    made = heads(tree, text, end, window, 200, table).decode()
    assert made == "class Cart:\n    def second(self, item):\n        # ...\n", "a line left by its indentation is in no `if`"
    assert heads(tree, text, end, text.line_start(5), 200, table) == b"class Cart:\n    # ...\n"
    assert heads(tree, text, end, window, 12, table) in (b"", b"    def second(self, item):\n        # ...\n")
    assert heads(tree, text, end, 0, 200, table) == b"" and heads(None, text, end, window, 200, table) == b""


TWO = """class Desk:
    def pay(self, cart):
        return cart.add(1)

    def close(self, till):
        return till.count()


def last(door):
    door.lock()
"""


def test_what_decides_how_much_of_a_piece_is_shown_is_the_same_in_a_whole_class() -> None:
    text, symbols = Text.of(TWO), symbols_of("python", TWO.encode())

    def names(place: str) -> frozenset[str]:
        return names_around(symbols, focus_of(symbols, text, TWO.index(place)))

    assert names("add") == names("till.") == names("def close") >= {"cart", "add", "till", "count"}
    assert names("door.") >= {"door", "lock"} and not names("door.") & {"add", "till"}
    source = TWO[: TWO.index("def last")].rstrip()
    typed, known = Text.of(source + "\n\n        "), symbols_of("python", source.encode())
    assert names_around(known, focus_of(known, typed, len(typed))) == names("add"), "by its indentation in it"


def test_the_focus_is_the_function_and_moving_in_it_changes_nothing() -> None:
    text = Text.of(SHOP)
    symbols = symbols_of("python", SHOP.encode())
    inside = [SHOP.index("if len"), SHOP.index("append"), SHOP.index("return True") + 11]
    focuses = {focus_of(symbols, text, at) for at in inside}
    assert {(focus.name, focus.start) for focus in focuses} == {("Cart.add", SHOP.index("def add"))}
    names = {use.name: use.distance for use in names_in(symbols, focuses.pop())}
    assert names["len"] == 0 and names["cart"] > 0
    assert focus_of(symbols, text, SHOP.index("import")).name == ""
    at = SHOP.index("def total") + 3
    found = definition_at(symbols.definitions, at)
    assert found is not None and found.name == "total"


edits = st.lists(st.tuples(st.integers(0, 900), st.integers(0, 30), st.text("ab\né", max_size=12)), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(edits)
def test_hunks_say_what_became_of_the_text(script: list[tuple[int, int, str]]) -> None:
    text = Text.of("".join(f"line {n} of it\n" for n in range(60)))
    hunks: tuple = ()  # type: ignore[type-arg]
    for at, n, new in script:
        start = text.floor(min(at, len(text)))
        end = text.floor(min(start + n, len(text)))
        edit = Edit(start, max(start, end), new.encode())
        hunks = touched(hunks, text, edit, 0.0)
        text = text.edit(edit.start, edit.end, edit.new)
        for hunk in hunks:
            assert 0 <= hunk.start <= hunk.end <= len(text) and 0 <= hunk.was_start <= hunk.was_end <= len(hunk.was)
            diff_lines(hunk, text)
    last = hunks[-1]
    if len(hunks) == 1 and len(last.was) == 60 * 14 + 50:  # all was one stretch: outside of it nothing changed
        was, now = last.was.bytes(), text.bytes()
        assert was[: last.was_start] + now[last.start : last.end] + was[last.was_end :] == now


def test_a_change_is_told_as_a_small_diff() -> None:
    text = Text.of("a = 1\nb = f(a)\nc = 3\n")
    edit = Edit(text.bytes().index(b"(a)"), text.bytes().index(b"(a)") + 3, b"(a, key)")
    hunks = touched((), text, edit, 0.0)
    assert diff_lines(hunks[0], text.edit(edit.start, edit.end, edit.new)) == ("-b = f(a)", "+b = f(a, key)")
    spaces = touched((), text, Edit(1, 2, b"   "), 0.0)
    assert diff_lines(spaces[0], text.edit(1, 2, b"   ")) == ()


def planned(
    text: str, at: int, limits: Limits, zones: Zones | None, placement: str = "comments", *, tree: bool = False
) -> tuple[Plan, Prompt]:
    snapshot = DocumentSnapshot("file:///w/a.py", 1, "python", Text.of(text))
    layout = replace(ANCHORED, placement=placement, header=((3, "<repo>"), "{repository}\n", (4, "<file>"), "{path}\n"))
    made = parse("python", snapshot.text) if tree else None
    table = new_table()
    parsed = None if isinstance(made, NoTree) else made
    plan = make_plan(snapshot, at, limits, table, layout, file=FileName("a.py", "w"), zones=zones, tree=parsed)
    return plan, render(plan, snapshot, at, table)


@settings(max_examples=60, deadline=None)
@given(
    st.text("ab =\n(é", max_size=600) | st.sampled_from([LONG, "", "x" * 5000, "(" * 300, "\0\1\2" * 50]),
    st.integers(0, 6000), st.integers(8, 400), candidates, st.sampled_from(["comments", "files"]), st.booleans(),
)  # fmt: skip
def test_no_prompt_with_pieces_exceeds_its_limits(
    text: str, at: int, n: int, found: list[Candidate], placement: str, fill: bool
) -> None:
    wrap = HASH if placement == "comments" else Wrapping(FILES)
    zones = choose_pieces(found, ZoneLimits(200, 200, 200, 200), new_table(), wrap, NOWHERE)
    at = Text.of(text).floor(min(at, len(text.encode())))
    limits = Limits(200, 60, n, fill=fill)
    plan, prompt = planned(text, at, limits, zones, placement, tree=True)
    assert len(prompt.tokens) <= max(n, plan.layout.n_markers)
    assert sum(each.n_tokens for each in prompt.pieces) == len(prompt.tokens)
    assert all(each.n_tokens >= 0 for each in prompt.pieces)
    assert plan.zones in (zones, Zones()) and plan.asked == zones.digest
    if plan.zones == Zones() and zones.files:
        assert "the limits are small: pieces of other files are left out" in plan.notes


def test_pieces_stand_where_the_layout_says_and_none_changes_nothing() -> None:
    zones = choose_pieces([piece("a"), piece("b", points=90)], ROOMY, new_table(), HASH, NOWHERE)
    limits = Limits(300, 60, 400)
    plain, prompt = planned("x = 1\ny = a(", 12, limits, None)
    assert planned("x = 1\ny = a(", 12, limits, Zones())[1].tokens == prompt.tokens
    plan, prompt = planned("x = 1\ny = a(", 12, limits, zones)
    n = plan.n_header
    assert decode(prompt.tokens[n + 1 : n + 1 + plan.n_prefix]) == text_of(zones).encode() + b"x = 1\n"
    names = [(each.name, each.path) for each in prompt.pieces if each.n_tokens and each.name in ("reference", "prefix")]
    assert names == [("reference", "b.py"), ("reference", "a.py"), ("prefix", "")]
    files = choose_pieces([piece("a")], ROOMY, new_table(), Wrapping(FILES), NOWHERE)
    plan, prompt = planned("x = 1\ny = a(", 12, limits, files, "files")
    starts = [i for i, token in enumerate(prompt.tokens) if token == 4]
    assert len(starts) == 2 and decode(prompt.tokens[starts[0] + 1 : starts[1]]) == b"a.py\ndef a(item):\n"
    assert plain.n_header < plan.n_header


@pytest.mark.parametrize("n_total", [60, 90, 140])
def test_a_small_window_knows_in_which_function_it_is(n_total: int) -> None:
    text = LONG + "        last = fo"
    plan, prompt = planned(text, len(text), Limits(120, 0, n_total, fill=True), Zones(), tree=True)
    assert plan.window_start > 0 and len(prompt.tokens) <= n_total
    if n_total >= 90:
        assert plan.heads.startswith((b"class Cart:\n", b"    def second(self, item):\n")) and plan.n_heads
        assert any(each.name == "core" for each in prompt.pieces)
