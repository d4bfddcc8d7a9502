"""The fixture format itself."""

from __future__ import annotations

import pytest

from tests.support.fixture import cursor_in, parse


def test_one_file() -> None:
    file = parse("\nx = é$0\n").at_cursor
    assert (file.path, file.text, file.cursor) == ("/main.py", "x = é\n", 6)


def test_several_files() -> None:
    fixture = parse("//- /a.py\nimport b\nb.$0\n//- /b.py\nx = 1\x0c\n\n")
    assert [file.path for file in fixture.files] == ["/a.py", "/b.py"]
    assert fixture.at_cursor.path == "/a.py"
    assert fixture.at_cursor.cursor == len("import b\nb.")
    assert fixture.file("/b.py").text == "x = 1\x0c\n\n"
    assert fixture.file("/b.py").cursor is None


def test_a_cursor_at_the_end_and_in_nothing() -> None:
    assert cursor_in("a\r\n$0") == ("a\r\n", 3)
    assert cursor_in("$0") == ("", 0)


@pytest.mark.parametrize("text", ["$0 $0", "//- a.py\n", "//- /a\n//- /a\n"])
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_no_cursor() -> None:
    with pytest.raises(ValueError):
        _ = parse("x").at_cursor
    with pytest.raises(ValueError):
        parse("x").file("/other.py")
