"""What holds whatever a model says: no verdict depends on how the text is cut into pieces, and nothing is made up."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lsp_server.rules.judge import RULES, Judge
from lsp_server.rules.place import place_of
from lsp_server.rules.scanner import scan

LANGUAGES = ["python", "typescript", "go", "ruby", "lua", "shellscript", "html", "markdown", "yaml", "rust", "", "c"]
WORDS = st.sampled_from(
    ["foo", "x1", "x2", " ", "    ", "\t", "\n", "\n", "\r\n", "\n\n", "(", ")", "[", "]", "{", "}", '"', "'", "`", "```",
     '"""', "#", "//", "/*", "*/", "\\", ":", "def f():", "end", "return ", "else:", ".", "->", ",", "=", "é", "🦊",
     "\ufffd", "\ud83d", "<|fim_middle|>", "<EOT>", "<|", "self.", "0, 0, ", "if x {", "});", "\r", "--[[", "=> {"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(WORDS, max_size=40).map("".join), st.text(max_size=60))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(LANGUAGES),
    TEXTS,
    TEXTS,
    TEXTS,
    st.data(),
    st.booleans(),
    st.sets(st.sampled_from(sorted(RULES)), max_size=3),
)
def test_any_pieces_give_the_same_verdict_and_nothing_is_made_up(
    language: str, before: str, after: str, said: str, data: st.DataObject, whole: bool, off: set[str]
) -> None:
    before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    place = place_of(language, before, after)
    assert before.endswith(place.before) and after.startswith(place.after)

    def judge(pieces: list[str]) -> Judge:
        made = Judge(place, frozenset(off))
        for piece in pieces:
            made.push(piece)
        return made

    cuts = sorted(data.draw(st.sets(st.integers(0, len(said)), max_size=6)))
    pieces = [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]
    one, other, all_at_once = judge(list(said)), judge(pieces), judge([said])
    assert one.stop == other.stop == all_at_once.stop
    settled = one.settle(is_whole=whole)
    assert settled == other.settle(is_whole=whole) == all_at_once.settle(is_whole=whole)
    # what is offered is a part of what was said, from the beginning but for an echo, other blanks aside
    bare, all_said = "".join(settled.text.split()), "".join(said.split())
    assert bare in all_said if "echo" in settled.rules else all_said.startswith(bare)
    assert not settled.text or place.rest[: settled.n_replaced] != settled.text
    if not place.rest.strip():
        assert settled.text.rstrip() + "\n" * settled.text.endswith("\n") == settled.text
    assert "\r\n" not in settled.text
    if not off:
        settled.text.encode()
        assert "\ufffd" not in settled.text or "\ufffd" in before + after
        if place.single_line:
            assert "\n" not in settled.text


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(LANGUAGES), TEXTS, TEXTS)
@example("typescript", "/* a */ {", "/** b **/ (")
@example("html", "<!-- a -->(", "<!-- - -- b -->{")
@example("lua", "--[[ a ] ]] {", "-- [[ b\n(")
@example("python", '"""a "b" """ (', "'c'")
def test_the_scanner_goes_on_as_if_it_had_never_stopped(language: str, first: str, then: str) -> None:
    step, whole, slow = scan(language, first), scan(language, first + then), scan(language, "")
    for char in then:
        step.feed(char)
    for char in first + then:
        slow.feed(char)
    for name in ("inside", "open", "unmatched", "closer", "in_long"):
        assert getattr(step, name) == getattr(whole, name) == getattr(slow, name), name
