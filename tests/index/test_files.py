"""Which files count. Git itself says what git ignores."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lsp_server.index import kinds
from lsp_server.index.files import Files, Folder, Found
from lsp_server.index.git_rules import GitRules
from lsp_server.workspace import PRIVATE, Exclusion
from tests.index.conftest import git, write, write_all

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def files_of(root: Path, globs: tuple[str, ...] = PRIVATE, max_bytes: int = 100_000) -> Files:
    return Files(str(root), Exclusion(globs, [str(root)], memo_s=0.0), max_bytes)


def found(root: Path, start: str = "", **options: object) -> list[str]:
    walked = files_of(root, **options).walk(start)  # type: ignore[arg-type]
    return [each.path for each in walked if isinstance(each, Found)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "ws"
    folder.mkdir()
    return folder


def test_what_counts(root: Path) -> None:
    write_all(root, {
        "app.py": "x", "src/a.ts": "x", "run": "#!/bin/sh", "LICENSE": "x", "picture.png": "x", "archive.tar.gz": "x",
        ".env": "x", "key.pem": "x", "src/.midfillignore": "hidden/\n", "src/hidden/h.py": "x",
        ".gitignore": "*.log\n/out/\n!keep.log\n", "out/o.py": "x", "src/out/o.py": "x", "big.py": "x" * 200_000,
        "node_modules/m/i.js": "x", ".git/hooks/h.py": "x", "env/pyvenv.cfg": "", "env/lib/l.py": "x", "env2/e.py": "x",
        "third_party/t.py": "x", "package-lock.json": "{}", "a.min.js": "x", "api_pb2.py": "x", "target/CACHEDIR.TAG": "x",
        "target/t.rs": "x", "go.mod": "module m", "vendor/v.go": "x", "src/vendor/shop.py": "x",
    })  # fmt: skip
    expected = ["LICENSE", "app.py", "go.mod", "run", "env2/e.py", "src/a.ts", "src/out/o.py", "src/vendor/shop.py"]
    assert found(root) == expected
    files = files_of(root)
    every = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    assert sorted(path for path in every if files.file_counts(path)) == sorted([*expected, "big.py"])


def test_the_users_own_and_the_repositorys_rules(root: Path, tmp_path: Path) -> None:
    write_all(root, {"a.py": "", "b.py": "", "c.py": "", "sub/b.py": ""})
    write_all(root.parent / "home", {".config/git/ignore": "a.py\n"})
    write_all(root, {".git/info/exclude": "/b.py\n", ".git/HEAD": "ref: refs/heads/main\n"})
    assert found(root) == ["c.py", "sub/b.py"]
    assert found(root / "sub") == ["b.py"], "a pattern of the repository's top means the top"
    if shutil.which("git"):
        write_all(tmp_path, {"home/.gitconfig": f"[core]\n\texcludesFile = {tmp_path}/mine\n", "mine": "c.py\n"})
        assert found(root) == ["a.py", "sub/b.py"]


def test_a_linked_worktree_has_the_rules_of_its_repository(root: Path) -> None:
    write_all(root.parent, {"main/.git/info/exclude": "x.py\n", "main/.git/worktrees/w/commondir": "../..\n"})
    write_all(root, {".git": f"gitdir: {root.parent}/main/.git/worktrees/w\n", "x.py": "", "y.py": ""})
    assert found(root) == ["y.py"]


_WORDS = st.sampled_from(["a", "b", "c.py", "d.log", "*.py", "*", "**", "b*", "?", "[ab]", "a/b"])
_PATTERNS = st.builds(
    lambda not_, top, words, folder: f"{not_}{top}{'/'.join(words)}{folder}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(_WORDS, min_size=1, max_size=2),
    st.sampled_from(["", "/"]),
)  # fmt: skip
_RULES = st.lists(_PATTERNS, max_size=4)
_TREE = ["c.py", "d.log", "a/c.py", "a/d.log", "a/b/c.py", "b/c.py", "b/a/c.py", "b/a/b/d.log"]


@needs_git
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["b/", "!b/c.py"], ["!*"], [])
@example(["*", "!a/"], [], ["!c.py"])
@given(_RULES, _RULES, _RULES)
def test_as_git_has_it(top: list[str], below: list[str], deep: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        git(root, "init", "-q")
        write_all(root, dict.fromkeys(_TREE, ""))
        for folder, rules in (("", top), ("a", below), ("b/a", deep)):
            (root / folder / ".gitignore").write_text("".join(f"{rule}\n" for rule in rules))
        ignored = set(git(root, "check-ignore", "--no-index", "--stdin", stdin="\n".join(_TREE)).split())
        rules_ = GitRules(str(root))

        def counts(path: str) -> bool:
            parts = path.split("/")
            folders = ["/".join(parts[:n]) for n in range(len(parts))]
            return not any(
                rules_.is_ignored(folder, part, n < len(parts) - 1)
                for n, (folder, part) in enumerate(zip(folders, parts, strict=True))
            )

        assert {path for path in _TREE if not counts(path)} == ignored


def test_links_are_not_followed_and_no_loop_is_walked(root: Path) -> None:
    write(root, a__b__x_dot_py="")
    (root / "a" / "loop").symlink_to(root, target_is_directory=True)
    (root / "again").symlink_to(root / "a", target_is_directory=True)
    (root / "x.py").symlink_to(root / "a" / "b" / "x.py")
    os.mkfifo(root / "pipe.py")
    assert found(root) == ["a/b/x.py"]
    files = files_of(root)
    assert not files.file_counts("again/b/x.py")
    assert not files.file_counts("a/loop/a/b/x.py")


def test_names_that_are_no_text_and_folders_that_can_not_be_read(root: Path) -> None:
    write(root, ok_dot_py="", shut__s_dot_py="")
    os.close(os.open(os.fsencode(root) + b"/\xff.py", os.O_CREAT | os.O_WRONLY))
    (root / "new\nline.py").write_text("")
    (root / "shut").chmod(0)
    try:
        assert set(found(root)) <= {"ok.py", "shut/s.py"}  # root may read what others may not
        assert "ok.py" in found(root)
    finally:
        (root / "shut").chmod(0o700)


def test_walking_is_lazy_and_in_order(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_all(root, {f"f{n}/x.py": "" for n in range(50)})
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(str(path)), scandir(path))[1])
    walk = files_of(root).walk()
    assert listed == []
    first = list(islice(walk, 3))
    assert first == [Folder(""), Folder("f0"), Found("f0/x.py", first[2].mtime_ns, 0)]  # type: ignore[union-attr]
    listed.clear()
    next(walk)
    assert len(listed) <= 2


def test_only_below_a_folder(root: Path) -> None:
    write_all(root, {"a/x.py": "", "b/y.py": "", ".gitignore": "b\n"})
    assert found(root, "a") == ["a/x.py"]
    assert found(root, "b") == found(root, "nothing") == []


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("x = 1\n", ""),
        ("a\0b", kinds.BINARY),
        ("# @generated by x\nx = 1\n", kinds.GENERATED),
        ("// Code generated by protoc-gen-go. DO NOT EDIT.\npackage x\n", kinds.GENERATED),
        ("/* This file was automatically generated */\n", kinds.GENERATED),
        ("MARK = '@generated'\n# we look for the mark of such files\n", ""),
        ("# a note on generated code, which one may edit\n", ""),
        ("var a=1;" * 1000, kinds.MINIFIED),
        ("// licence\n" * 300 + "var a=1;" * 4000, kinds.MINIFIED),
        ("x = 1\n" * 4000 + f"TABLE = '{'A' * 19000}'\n", ""),
    ],
)
def test_content(text: str, verdict: str) -> None:
    assert kinds.by_content(text.encode()) == verdict
