"""What llama-server is asked, and what counts as its reply."""

from __future__ import annotations

import pytest

from bench.llama_server import first_line, infill, without_blanks


def test_the_request_is_cut_at_the_cursor_as_the_extension_cuts_it() -> None:
    text = "a\nb\n    cde)\nf\n"
    request = infill(text, text.index("de"), 7)
    assert request is not None
    body = request.body
    assert (body["input_prefix"], body["prompt"], body["input_suffix"]) == ("a\nb\n", "    c", "de)\nf\n\n")
    assert (body["n_predict"], body["n_indent"], body["temperature"], body["cache_prompt"]) == (7, 4, 0, True)
    assert request.n_blanks == 0


def test_blanks_before_the_cursor_are_not_sent_and_come_back_in_the_reply() -> None:
    request = infill("a\n    ", 6, 7)
    assert request is not None
    assert (request.body["prompt"], request.n_blanks) == ("", 4)
    assert without_blanks("    x = 1", request.n_blanks) == "x = 1"
    assert without_blanks("      x", 4) == "  x"
    assert without_blanks("x", 4) == "x"


def test_the_windows_are_256_and_64_lines() -> None:
    lines = [f"l{i}" for i in range(600)]
    text = "\n".join(lines)
    request = infill(text, text.index("l400") + 2, 7)
    assert request is not None
    assert request.body["input_prefix"].split("\n")[:-1] == lines[144:400]
    assert request.body["input_suffix"].split("\n")[1:-1] == lines[401:465]


def test_nothing_is_asked_with_much_behind_the_cursor() -> None:
    assert infill("f(12345678", 1, 7) is None
    assert infill("f(1234567", 1, 7) is not None


@pytest.mark.parametrize(
    ("text", "line"),
    [("", None), ("a = 1", None), ("a = 1\n", "a = 1"), ("\n", None), ("\n  b\nc", "\n  b"), (" \n\n", None), (")\nx\n", ")")],
)
def test_the_reply_is_the_first_complete_line_that_is_not_blank(text: str, line: str | None) -> None:
    assert first_line(text) == line
