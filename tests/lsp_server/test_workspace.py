"""Private files: by name, by glob, by ignore file, through links. Real folders, since the disk is what this is about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsp_server.uris import document_id
from lsp_server.workspace import BY_FILE, BY_SETTING, IGNORE_FILE, PRIVATE, Exclusion


def of(path: Path | str) -> str:
    return document_id(path.as_uri() if isinstance(path, Path) else path)


@pytest.mark.parametrize(
    "name",
    [
        ".env", ".env.local", ".envrc", ".ENV", "prod.env", "server.pem", "SERVER.KEY", "id_rsa", "id_ed25519.pub", "a.p12",
        ".npmrc", ".pypirc", ".netrc", "credentials.json", "secrets.yaml", "vault.kdbx", "cert.crt",
    ],
)  # fmt: skip
def test_private_names(name: str) -> None:
    exclusion = Exclusion()
    for uri in (f"file:///w/app/{name}", f"untitled:{name}", f"untitled:/w/app/{name}", f"git:/w/app/{name}?HEAD"):
        assert exclusion.reason(of(uri)) == BY_SETTING, uri


@pytest.mark.parametrize(
    "path",
    [
        "/w/app/run.sh", "/w/app/environment.py", "/w/.env/lib/site.py", "/w/credentials_service/main.py", "/w/app/keys.py",
        "/w/app/main.py", "/w/secrets/readme.md", "/w/app/envoy.yaml",
    ],
)  # fmt: skip
def test_names_that_only_look_like_it(path: str) -> None:
    """Built-in names count for the file itself: a folder with such a name is not private as a whole."""
    assert Exclusion().reason(of(f"file://{path}")) == ""


def test_private_folders() -> None:
    exclusion = Exclusion()
    assert exclusion.reason("file:///home/me/.ssh/config") == BY_SETTING
    assert exclusion.reason("file:///home/me/.AWS/config") == BY_SETTING
    assert exclusion.reason("file:///home/me/ssh/config") == ""


def test_odd_documents_raise_nothing() -> None:
    exclusion = Exclusion()
    for uri in ("", "untitled:Untitled-1", "nonsense", "file:///a%00b", "x:", "file:///" + "a" * 5000):
        assert exclusion.reason(of(uri)) == ""
    assert exclusion.reason(of("file://host/share/.env")) == BY_SETTING
    assert exclusion.reason(of("vscode-notebook-cell:/w/.env#W0")) == BY_SETTING


def test_a_link_to_a_private_file_is_private_and_so_is_a_private_link(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=x")
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "settings.txt").symlink_to(tmp_path / ".env")
    (tmp_path / "prod.env").symlink_to(tmp_path / "plain.txt")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    exclusion = Exclusion(roots=[str(tmp_path)])
    assert exclusion.reason(of(tmp_path / "settings.txt")) == BY_SETTING
    assert exclusion.reason(of(tmp_path / "prod.env")) == BY_SETTING
    assert exclusion.reason(of(tmp_path / "plain.txt")) == ""
    assert exclusion.reason(of(tmp_path / "loop")) == ""


def test_the_users_globs_add_and_let_in(tmp_path: Path) -> None:
    exclusion = Exclusion((*PRIVATE, "*.secret", "/top.txt", "build/", "!.env.example"), [str(tmp_path)])
    private = ["a.secret", "sub/b.secret", "top.txt", "build/x.py", ".env", ".env.local"]
    public = ["sub/top.txt", "a.SECRET", ".env.example", "sub/.env.example", "main.py"]
    assert [exclusion.reason(of(tmp_path / name)) for name in private] == [BY_SETTING] * len(private)
    assert [exclusion.reason(of(tmp_path / name)) for name in public] == [""] * len(public)


def test_globs_that_are_none_are_returned_and_the_rest_counts() -> None:
    exclusion = Exclusion()
    assert exclusion.set_globs(("!", "*.x")) == ("!",)
    assert exclusion.reason("file:///a.x") == BY_SETTING


def test_ignore_files_from_the_root_down(tmp_path: Path) -> None:
    root, nested = tmp_path / "root", tmp_path / "root" / "a" / "b"
    nested.mkdir(parents=True)
    (tmp_path / IGNORE_FILE).write_text("*.py\n")  # above the root: private all the same
    (root / IGNORE_FILE).write_text("# comment\n\n*.txt\n/only_top.md\n!\nprivate/\n")
    (nested / IGNORE_FILE).write_text("!open.txt\n*.md\n")
    exclusion = Exclusion(roots=[str(root), str(root / "a")])
    private = [root / name for name in ("x.py", "x.txt", "a/x.txt", "only_top.md", "a/private/x.c", "a/b/x.txt", "a/b/x.md")]
    public = [nested / "open.txt", root / "a/only_top.md", root / "a/x.md"]
    assert [exclusion.reason(of(path)) for path in private] == [BY_FILE] * len(private)
    assert [exclusion.reason(of(path)) for path in public] == [""] * len(public)


def test_an_ignore_file_can_not_let_private_files_in(tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_text("!.env\n")
    assert Exclusion(roots=[str(tmp_path)]).reason(of(tmp_path / ".env")) == BY_SETTING


def test_without_a_root_every_folder_above_counts(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / IGNORE_FILE).write_text("*.txt\n")
    assert Exclusion().reason(of(tmp_path / "a" / "x.txt")) == BY_FILE
    assert Exclusion().reason(str(tmp_path / "a" / "x.txt")) == BY_FILE


ELSEWHERE = ("untitled:{}", "vscode-notebook-cell:{}#W0", "vscode-remote://wsl+ubuntu{}", "git:{}?HEAD", "file://host{}")


@pytest.mark.parametrize("spelling", ELSEWHERE)
def test_what_is_no_file_of_this_disk_is_measured_by_what_is_known(spelling: str, tmp_path: Path) -> None:
    """Ignore files of the workspace folders and those above are read for the folders' sake, others only for a file's."""
    root, sub = tmp_path / "root", tmp_path / "root" / "sub"
    sub.mkdir(parents=True)
    (tmp_path / IGNORE_FILE).write_text("*.up\n")
    (root / IGNORE_FILE).write_text("*.txt\n/gen/\n")
    (sub / IGNORE_FILE).write_text("*.low\n")

    def at(path: Path) -> str:
        return document_id(spelling.format(path))

    assert Exclusion().reason(at(root / "x.txt")) == ""
    exclusion = Exclusion(roots=[str(root)], clock=lambda: 0.0)
    ignored = [root / "x.txt", sub / "x.up", root / "gen" / "x.py"]
    assert [exclusion.reason(at(path)) for path in ignored] == [BY_FILE] * 3
    assert [exclusion.reason(at(path)) for path in (sub / "x.low", sub / "x.py")] == ["", ""]
    assert exclusion.reason(of(sub / "y.low")) == BY_FILE
    assert exclusion.reason(at(sub / "z.low")) == BY_FILE
    (root / IGNORE_FILE).unlink()
    (root / IGNORE_FILE).mkdir()
    exclusion.forget()
    assert exclusion.reason(at(sub / "x.py")) == BY_FILE, "nobody knows what it names"
    (root / IGNORE_FILE).rmdir()
    exclusion.forget()
    assert exclusion.reason(at(root / "x.txt")) == ""


def test_a_workspace_folder_that_is_not_on_this_disk_still_anchors_globs(tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_text("*.py\n")
    root = document_id(f"vscode-remote://wsl%2Bubuntu{tmp_path}")
    exclusion = Exclusion((*PRIVATE, "/gen/*.c"), [root])
    assert exclusion.roots == (str(tmp_path),)
    assert exclusion.reason(f"{root}/gen/x.c") == BY_SETTING
    assert exclusion.reason(f"{root}/gen/x.py") == "", "a file of this disk that happens to have that path"


def test_a_root_behind_a_link(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / IGNORE_FILE).write_text("/x.txt\n")
    (tmp_path / "link").symlink_to(real)
    exclusion = Exclusion(roots=[str(tmp_path / "link")])
    assert exclusion.reason(of(tmp_path / "link" / "x.txt")) == BY_FILE
    assert exclusion.reason(of(real / "x.txt")) == BY_FILE


def test_ignore_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    now = [0.0]
    exclusion = Exclusion(roots=[str(tmp_path)], clock=lambda: now[0], memo_s=2.0)
    file, ignore = of(tmp_path / "x.txt"), tmp_path / IGNORE_FILE
    answers: list[str] = []
    for content in ("*.txt\n", "*.tex\n", None):
        assert exclusion.reason(file) == (answers[-1] if answers else "")  # kept for a while
        if content is None:
            ignore.unlink()
        else:
            ignore.write_text(content)
            os.utime(ignore, ns=(len(answers), len(answers)))  # the same size: only the time tells
        now[0] += 2.0
        answers.append(exclusion.reason(file))
    assert answers == [BY_FILE, "", ""]


def test_forget_looks_at_once(tmp_path: Path) -> None:
    exclusion = Exclusion(roots=[str(tmp_path)], clock=lambda: 0.0)
    assert exclusion.reason(of(tmp_path / "x.txt")) == ""
    (tmp_path / IGNORE_FILE).write_text("*.txt\n")
    exclusion.forget()
    assert exclusion.reason(of(tmp_path / "x.txt")) == BY_FILE


def test_an_ignore_file_that_can_not_be_used_hides_what_lies_below(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody knows what it names, so nothing below may be used; and that is said, once."""
    file = tmp_path / IGNORE_FILE

    def reason() -> str:
        return Exclusion(roots=[str(tmp_path)]).reason(of(tmp_path / "x.txt"))

    file.mkdir()
    assert reason() == BY_FILE and IGNORE_FILE in caplog.text
    file.rmdir()
    os.mkfifo(file)
    assert reason() == BY_FILE
    file.unlink()
    file.symlink_to(file.name)
    assert reason() == BY_FILE
    file.unlink()
    file.write_bytes(b"*.md\n" * 300_000)
    assert reason() == BY_FILE
    file.unlink()
    assert reason() == ""


BAD_UTF16 = b"\xff\xfe*.txt\n*.md\n"


@pytest.mark.parametrize("data", [BAD_UTF16, "*.md\n".encode("utf-16"), b"\xef\xbb\xbf*.md\r\n", b"[z-a]\n*.md\n"])
def test_ignore_files_in_any_encoding_and_with_bad_lines(data: bytes, tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_bytes(data)
    assert Exclusion(roots=[str(tmp_path)]).reason(of(tmp_path / "x.md")) == BY_FILE


def test_a_bad_glob_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    exclusion = Exclusion()
    assert exclusion.set_globs(("[z-a]", "*.secret")) == ("[z-a]",)
    assert exclusion.reason(of(tmp_path / "my.secret")) == BY_SETTING
