"""The store against a plain string that is edited by line and column, and every way in which a client can be wrong."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lsprotocol import types

from context.text import Text
from lsp_server.convert import to_changes
from lsp_server.documents import DocumentStore, Update
from tests.lsp_server.test_convert import ENCODINGS, encodings, reference, texts
from tests.support.client import span

URI = "file:///w/app/main.py"


def lsp_change(change: dict[str, object]) -> types.TextDocumentContentChangeEvent:
    if "range" not in change:
        return types.TextDocumentContentChangeWholeDocument(str(change["text"]))
    edges = change["range"]
    assert isinstance(edges, dict)
    start, end = (types.Position(edges[k]["line"], edges[k]["character"]) for k in ("start", "end"))
    return types.TextDocumentContentChangePartial(types.Range(start, end), str(change["text"]))


def change(store: DocumentStore, *changes: dict[str, object], version: int = 0, encoding: str = "utf-16") -> Update:
    return store.change(URI, version, to_changes([lsp_change(c) for c in changes], encoding))


def edit(start_line: int, start: int, end_line: int, end: int, text: str) -> dict[str, object]:
    return {"range": span(start_line, start, end_line, end), "text": text}


def opened(text: str, **options: object) -> DocumentStore:
    store = DocumentStore(**options)  # type: ignore[arg-type]
    store.open(URI, "python", 1, text)
    return store


def text_of(store: DocumentStore) -> str:
    document = store.find(URI)
    assert document is not None
    return document.snapshot.text.bytes().decode()


def apply_naively(text: str, one: dict[str, object], encoding: str) -> str | None:
    """None: the change has to be refused."""
    if "range" not in one:
        return str(one["text"])
    edges = one["range"]
    assert isinstance(edges, dict)
    first, last = ((edges[k]["line"], edges[k]["character"]) for k in ("start", "end"))
    (a, a_inside), (b, b_inside) = reference(text, *first, encoding), reference(text, *last, encoding)
    if first > last or a_inside or b_inside:
        return None
    raw = text.encode()
    return (raw[:a] + str(one["text"]).encode() + raw[b:]).decode()


changes_of_any_kind = st.one_of(
    st.builds(edit, st.integers(0, 6), st.integers(0, 9), st.integers(0, 6), st.integers(0, 9), texts),
    st.builds(lambda line, at, length, text: edit(line, at, line, at + length, text), *[st.integers(0, 5)] * 3, texts),
    st.builds(lambda text: {"text": text}, texts),
)


@settings(max_examples=150, deadline=None)
@given(texts, st.lists(st.lists(changes_of_any_kind, max_size=3), max_size=4), encodings)
@example("🦊🦊 = 1\n", [[edit(0, 2, 0, 2, "x")]], "utf-16")
@example("only line", [[edit(0, 0, 1, 0, "")], [edit(0, 0, 0, 0, "x = 1\n")]], "utf-16")
@example("a\r", [[edit(1, 0, 1, 0, "\n")], [edit(1, 0, 1, 0, "b")]], "utf-16")
def test_notifications_equal_a_plain_string(text: str, batches: list[list[dict[str, object]]], encoding: str) -> None:
    """Each notification is applied as a whole or not at all; the edits reported lead from text to text."""
    store = opened(text)
    seen, is_suspect = Text.of(text), False
    for batch in batches:
        wanted: str | None = text
        for one in batch:
            wanted = apply_naively(wanted, one, encoding) if wanted is not None else None
        update = change(store, *batch, encoding=encoding)
        if wanted is None:
            is_suspect = True
            assert update.edits == ()
        else:
            text = wanted
            is_suspect = is_suspect and not any("range" not in one for one in batch)
        for one_edit in update.edits:
            seen = seen.edit(one_edit.start, one_edit.end, one_edit.new)
        assert text_of(store) == text
        assert update.after is not None
        assert seen == update.after.text == Text.of(text)
        document = store.find(URI)
        assert document is not None
        assert document.suspect == is_suspect


@settings(max_examples=100, deadline=None)
@given(texts, texts, texts)
def test_a_full_text_touches_only_what_differs(head: str, middle: str, tail: str) -> None:
    store = opened(head + "old" + tail)
    update = change(store, {"text": head + middle + tail})
    assert text_of(store) == head + middle + tail
    (only,) = update.edits
    assert len(only.new) <= len(middle.encode())
    assert only.end - only.start <= 3


@pytest.mark.parametrize(
    ("before", "one", "after"),
    [
        ("🦊🦊 = 1\n", edit(0, 2, 0, 2, "x"), "🦊x🦊 = 1\n"),
        ("import os\n\f\ndef go():\n    pass\n", edit(3, 4, 3, 8, "return 7"), "import os\n\f\ndef go():\n    return 7\n"),
        ("m = 'a\u2028b\x85c\vd'\nn = 1\n", edit(1, 4, 1, 5, "2"), "m = 'a\u2028b\x85c\vd'\nn = 2\n"),
        ("only line", edit(0, 0, 1, 0, ""), ""),
        ("k: 1\nv: 2", edit(1, 0, 2, 0, "v: 3\n"), "k: 1\nv: 3\n"),
        ("int userid;\n", edit(0, 8, 0, 10, "ID"), "int userID;\n"),
        ("", edit(0, 0, 0, 0, "x"), "x"),
        ("a\nb\n", edit(2, 0, 2, 0, "c"), "a\nb\nc"),
        ("ab\r\ncd\r\n", edit(0, 99, 1, 0, " "), "ab cd\r\n"),
        ("ab\r\ncd\r\n", edit(0, 2, 0, 99, "!"), "ab!\r\ncd\r\n"),
        ("\ufeffa\n", edit(0, 1, 0, 2, "b"), "\ufeffb\n"),
    ],
)
def test_changes_of_public_reports_and_their_neighbours(before: str, one: dict[str, object], after: str) -> None:
    """utf16-position-01, line-splitting-01/02, sync-range-01/02/05"""
    store = opened(before)
    change(store, one)
    assert text_of(store) == after


def test_a_bad_change_undoes_its_whole_notification_once_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """sync-range-04"""
    store = opened("abcd\n")
    change(store, edit(0, 0, 0, 0, "Y"), edit(0, 3, 0, 1, "Z"), version=2)
    change(store, edit(0, 3, 0, 1, "Z"), version=3)
    assert text_of(store) == "abcd\n"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Z" not in caplog.text
    change(store, edit(0, 4, 0, 4, "e"), version=4)
    assert text_of(store) == "abcde\n"
    document = store.find(URI)
    assert document is not None
    assert document.suspect
    change(store, {"text": "fresh"}, version=5)
    document = store.find(URI)
    assert document is not None
    assert not document.suspect


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_half_a_character_is_refused(encoding: str) -> None:
    store = opened("🦊")
    change(store, edit(0, 1, 0, 1, "x"), encoding=encoding)
    assert text_of(store) == ("🦊x" if encoding == "utf-32" else "🦊")


def test_lone_surrogates_keep_the_columns_right() -> None:
    store = opened("a\ud83db")
    change(store, edit(0, 2, 0, 3, "\ude00c"))
    assert text_of(store) == "a\ufffd\ufffdc"
    change(store, edit(0, 3, 0, 3, "!"))
    assert text_of(store) == "a\ufffd\ufffd!c"


def test_versions_always_rise() -> None:
    store = opened("a")
    versions = []
    for version in (2, 5, 5, 1, 0):
        after = change(store, edit(0, 0, 0, 0, "x"), version=version).after
        assert after is not None
        versions.append(after.version)
    assert versions == [2, 5, 6, 7, 8]


def test_unknown_documents_raise_nothing() -> None:
    store = DocumentStore()
    assert change(store, edit(0, 0, 0, 0, "x")) == Update(None, None)
    assert store.close(URI) == Update(None, None)
    assert store.withdraw(URI) == Update(None, None)
    store.suspect(URI)
    assert len(store) == 0


def test_opening_again_begins_anew() -> None:
    store = opened("old")
    change(store, edit(0, 3, 0, 1, "bad"))
    update = store.open(URI, "rust", 1, "new")
    assert update.before is not None and update.after is not None
    document = store.find(URI)
    assert document is not None
    assert (text_of(store), document.snapshot.language, document.suspect) == ("new", "rust", False)


def withheld(store: DocumentStore) -> str:
    document = store.find(URI)
    assert document is not None
    assert len(document.snapshot.text) == 0 or not document.withheld
    return document.withheld


def test_excluded_documents_keep_no_text() -> None:
    store = DocumentStore(lambda doc_id: "private" if doc_id.endswith(".py") else "")
    assert store.open(URI, "python", 1, "TOKEN=x") == Update(None, None)
    whole: dict[str, object] = {"text": "TOKEN=y"}
    for one in (edit(0, 0, 0, 0, "x"), whole):
        assert change(store, one) == Update(None, None)
        assert withheld(store) == "private"
    assert store.close(URI) == Update(None, None)


def test_a_document_that_becomes_excluded_loses_its_text_until_it_is_known_again() -> None:
    reason = [""]
    store = DocumentStore(lambda _doc_id: reason[0])
    before = store.open(URI, "python", 1, "TOKEN=x").after
    reason[0] = "private"
    assert store.withdraw_all() == [Update(before, None)]
    assert withheld(store) == "private"
    reason[0] = ""
    assert change(store, edit(0, 0, 0, 0, "x")) == Update(None, None)
    update = change(store, {"text": "whole"})
    assert update.before is None and update.after is not None
    assert text_of(store) == "whole"


def test_long_and_binary_documents_keep_no_text() -> None:
    store = DocumentStore(max_bytes=10)
    assert store.open(URI, "python", 1, "é" * 6).after is None
    assert "max_file_bytes" in withheld(store)
    store.open(URI, "python", 1, "é" * 5)
    assert withheld(store) == ""
    update = change(store, edit(0, 0, 0, 0, "x"))
    assert update.before is not None and update.after is None
    assert "max_file_bytes" in withheld(store)
    assert change(store, edit(0, 0, 0, 1, "")).after is None
    assert change(store, {"text": "short"}, edit(0, 0, 0, 0, "> ")).after is not None
    assert text_of(store) == "> short"
    assert change(store, {"text": "longer than ten"}).after is None
    assert change(store, {"text": "a\0b"}).after is None
    assert "binary" in withheld(store)


@pytest.mark.parametrize(
    ("text", "is_binary"), [("\0", True), ("a" * 8191 + "\0", True), ("a" * 8192 + "\0", False), ("\ufeffa", False)]
)
def test_a_nul_in_the_first_8_kib_is_binary(text: str, is_binary: bool) -> None:
    assert ("binary" in withheld(opened(text))) is is_binary
    store = opened("first")
    change(store, {"text": text})
    assert ("binary" in withheld(store)) is is_binary


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:///C:/a.py", "file:///c%3A/a.py"),
        ("file:///w/a%20b.py", "file:///w/a b.py"),
        ("file:///w/%C3%A9.py", "file:///w/é.py"),
        ("FILE://localhost/w/a.py", "file:///w/a.py"),
        ("untitled:Untitled-1", "untitled:Untitled%2D1"),
        ("file:///w/a%2fb", "file:///w/a%2Fb"),
        ("file:///w/100%25.py", "file:///w/100%.py"),
        ("vscode-remote://WSL%2bubuntu/w/m.py", "vscode-remote://wsl+ubuntu/w/m.py"),
        ("file://C:/w/m.py", "file:///c%3A/w/m.py"),
    ],
)
def test_two_spellings_are_one_document(one: str, other: str) -> None:
    store = DocumentStore()
    store.open(one, "python", 1, "text")
    assert store.find(other) is not None
    store.close(other)
    assert len(store) == 0


@pytest.mark.parametrize(
    "uris",
    [
        ("vscode-notebook-cell:/w/n.ipynb#W0", "vscode-notebook-cell:/w/n.ipynb#W1"),
        ("file:///w/a%2Fb", "file:///w/a/b"),
        ("file:///w/%2541.py", "file:///w/A.py"),
        ("vscode-remote://wsl+a/w/m.py", "vscode-remote://wsl+b/w/m.py"),
        ("file:///w/a%3Fb", "file:///w/a?b"),
        ("untitled:Untitled-1", "untitled:Untitled-2"),
        ("git:/w/a.py?HEAD", "git:/w/a.py?main"),
        ("file:///w/A.py", "file:///w/a.py"),
        ("not a uri", "not a uri either"),
        ("", "%"),
    ],
)
def test_different_documents_stay_apart(uris: Sequence[str]) -> None:
    store = DocumentStore()
    for uri in uris:
        store.open(uri, "python", 1, uri)
    assert len(store) == len(uris)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=20))
@example("file:///w/%2541.py")
@example("vscode-remote://a%2541/w")
def test_any_uri_has_an_identity_that_stays(uri: str) -> None:
    store = DocumentStore()
    update = store.open(uri, "python", 1, "")
    assert update.after is not None
    assert store.find(update.after.doc_id) is not None
