"""Where an import may lead: for each language the file that is meant comes before others that could exist."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context.import_roots import Roots, ScriptPaths
from context.imports import MAX_CANDIDATES, candidates
from context.symbol_types import Import

PATHS = (
    ("@app/*", ("app/*", "generated/*")),
    ("@app/ui/*", ("widgets/*",)),  # the longest beginning wins, wherever it stands
    ("@*", ("nowhere/*",)),
    ("@app/core", ("core/index",)),
    ("#x", ("x.ts",)),
)
TS = ScriptPaths("web", base="web/src", paths=PATHS)


def _import(module: str, name: str = "", level: int = 0) -> Import:
    return Import(module, name, "", level, 0, 0)


def _meant(language: str, importer: str, import_: Import, files: set[str], roots: Roots | None = None) -> str | None:
    """The first candidate that exists; of a folder, whether a file lies directly in it."""
    for path in candidates(language, importer, import_, roots or Roots()):
        if path in files:
            return path
        if path.endswith("/") and any(
            f"{file.rpartition('/')[0]}/" == path.removeprefix("./") or (path == "./" and "/" not in file) for file in files
        ):
            return path
    return None


@pytest.mark.parametrize(
    ("importer", "import_", "meant"),
    [
        ("app/a.py", _import("", "b", 1), "app/b.py"),
        ("app/a.py", _import("", "name_in_init", 1), "app/__init__.py"),
        ("app/sub/c.py", _import("b", "B", 2), "app/b.py"),
        ("app/sub/c.py", _import("", "sub", 2), "app/sub/__init__.py"),
        ("app/sub/c.py", _import("", "x", 4), None),
        ("app/sub/c.py", _import("app.b", "B"), "app/b.py"),
        ("app/sub/c.py", _import("app", "b"), "app/b.py"),
        ("app/sub/c.py", _import("app.sub"), "app/sub/__init__.py"),
        ("tests/test_b.py", _import("pkg.mod", "*"), "src/pkg/mod.py"),
        ("tests/test_b.py", _import("spaces.deep.leaf", "f"), "spaces/deep/leaf.py"),
        ("tools/run.py", _import("local"), "tools/local.py"),
        ("tools/run.py", _import("stub"), "stubs/stub.pyi"),
        ("services/x/src/pkg/one.py", _import("pkg.two", "T"), "services/x/src/pkg/two.py"),
        ("app/a.py", _import("numpy", "array"), None),
        ("app/b.py", _import("b", "B", 1), None),
    ],
)
def test_python(importer: str, import_: Import, meant: str | None) -> None:
    files = {
        "app/__init__.py",
        "app/a.py",
        "app/b.py",
        "app/sub/__init__.py",
        "app/sub/c.py",
        "src/pkg/mod.py",
        "src/pkg/two.py",
    }
    files |= {"spaces/deep/leaf.py", "tools/local.py", "local.py", "stubs/stub.pyi", "services/x/src/pkg/two.py"}
    assert _meant("python", importer, import_, files, Roots(sources=("stubs",))) == meant


@pytest.mark.parametrize(
    ("importer", "module", "meant"),
    [
        ("web/src/app/a.ts", "./b", "web/src/app/b.ts"),
        ("web/src/app/a.ts", "./b.js", "web/src/app/b.ts"),
        ("web/src/app/a.ts", "./view", "web/src/app/view.tsx"),
        ("web/src/app/a.ts", "./types", "web/src/app/types.d.ts"),
        ("web/src/app/a.js", "./both", "web/src/app/both.js"),
        ("web/src/app/a.ts", "./both", "web/src/app/both.ts"),
        ("web/src/app/a.ts", "..", "web/src/index.ts"),
        ("web/src/app/a.ts", "../core", "web/src/core/index.ts"),
        ("web/src/app/a.ts", "./data.json?raw", "web/src/app/data.json"),
        ("web/src/app/a.ts", "./x.service", "web/src/app/x.service.ts"),
        ("web/src/app/a.ts", "../../../../up", None),
        ("web/src/app/a.ts", "@app/b", "web/src/app/b.ts"),
        ("web/src/app/a.ts", "@app/made", "web/src/generated/made.ts"),
        ("web/src/app/a.ts", "@app/core", "web/src/core/index.ts"),
        ("web/src/app/a.ts", "@app/ui/b", "web/src/widgets/b.ts"),
        ("web/src/app/a.ts", "core", "web/src/core/index.ts"),
        ("web/src/app/a.ts", "#x", "web/src/x.ts"),
        ("other/a.ts", "@app/b", None),
        ("other/a.ts", "@acme/lib", "packages/lib/src/index.ts"),
        ("other/a.ts", "@acme/lib/deep", "packages/lib/src/deep.ts"),
        ("other/src/deep/a.ts", "@/util", "other/src/util.ts"),
        ("web/src/app/a.ts", "node:fs", None),
        ("web/src/app/a.ts", "react", None),
    ],
)
def test_scripts(importer: str, module: str, meant: str | None) -> None:
    files = {
        f"web/src/app/{name}" for name in ("b.ts", "view.tsx", "types.d.ts", "both.js", "both.ts", "data.json", "x.service.ts")
    }
    files |= {"web/src/index.ts", "web/src/core/index.ts", "web/src/generated/made.ts", "web/src/x.ts", "up.ts"}
    files |= {"web/src/widgets/b.ts", "web/src/app/ui/b.ts", "web/src/nowhere/app/b.ts"}
    files |= {"packages/lib/src/index.ts", "packages/lib/src/deep.ts", "other/src/util.ts"}
    roots = Roots(scripts=(TS,), packages=(("@acme/lib", "packages/lib"),))
    language = "javascript" if importer.endswith(".js") else "typescript"
    assert _meant(language, importer, _import(module), files, roots) == meant


@pytest.mark.parametrize(
    ("module", "meant"),
    [
        ("x.com/u/repo/internal/store", "internal/store/"),
        ("x.com/u/repo", "./"),
        ("x.com/u/repo/tools/gen", "tools/gen/"),
        ("y.com/z", "vendor/y.com/z/"),
        ("./near", "cmd/near/"),
        ("fmt", None),
        ("x.com/u/repository/internal", None),
    ],
)
def test_go(module: str, meant: str | None) -> None:
    files = {"main.go", "internal/store/a.go", "tools/gen/g.go", "vendor/y.com/z/z.go", "cmd/near/n.go", "fmt/f.go"}
    roots = Roots(go_modules=(("", "x.com/u/repo"), ("tools", "x.com/u/repo/tools")))
    assert _meant("go", "cmd/main.go", _import(module), files, roots) == meant


def test_go_without_a_known_module_guesses_by_the_end_of_the_path() -> None:
    assert candidates("go", "cmd/a.go", _import("x.com/u/repo/internal/store"))[-2:] == ("internal/store/", "store/")


@pytest.mark.parametrize(
    ("importer", "module", "name", "meant"),
    [
        ("app/src/main/java/com/acme/a/A.java", "com.acme.b", "B", "app/src/main/java/com/acme/b/B.java"),
        ("app/src/test/java/com/acme/a/ATest.java", "com.acme.b", "B", "app/src/main/java/com/acme/b/B.java"),
        ("app/src/main/java/com/acme/a/A.java", "com.acme.b.B", "make", "app/src/main/java/com/acme/b/B.java"),
        ("app/src/main/java/com/acme/a/A.java", "com.acme.b.B", "Inner", "app/src/main/java/com/acme/b/B.java"),
        ("app/src/main/java/com/acme/a/A.java", "com.acme.b", "*", "app/src/main/java/com/acme/b/"),
        ("app/src/main/java/com/acme/a/A.java", "org.other", "O", "src/main/java/org/other/O.java"),
        ("app/src/main/java/com/acme/a/A.java", "com.acme.k", "K", "app/src/main/kotlin/com/acme/k/K.kt"),
        ("app/src/main/java/com/acme/a/A.java", "java.util", "List", None),
    ],
)
def test_java(importer: str, module: str, name: str, meant: str | None) -> None:
    files = {"app/src/main/java/com/acme/b/B.java", "src/main/java/org/other/O.java", "app/src/main/kotlin/com/acme/k/K.kt"}
    roots = Roots(sources=("app/src/main/kotlin",))
    assert _meant("java", importer, _import(module, name), files | {"src/main/java/java/util/List.java"}, roots) == meant


@pytest.mark.parametrize(
    ("importer", "module", "name", "meant"),
    [
        ("crates/core/src/a/b.rs", "crate::x", "Y", "crates/core/src/x.rs"),
        ("crates/core/src/a/b.rs", "crate", "Top", "crates/core/src/lib.rs"),
        ("crates/core/src/a/b.rs", "crate::a::sub", "*", "crates/core/src/a/sub.rs"),
        ("crates/core/src/a/b.rs", "super", "sub", "crates/core/src/a/sub.rs"),
        ("crates/core/src/a/b.rs", "super::super::x", "Y", "crates/core/src/x.rs"),
        ("crates/core/src/a/b.rs", "super", "A", "crates/core/src/a/mod.rs"),
        ("crates/core/src/a/mod.rs", "self", "b", "crates/core/src/a/b.rs"),
        ("crates/core/src/lib.rs", "a", "", "crates/core/src/a/mod.rs"),
        ("crates/cli/src/main.rs", "my_core::x", "Y", "crates/core/src/x.rs"),
        ("crates/cli/src/main.rs", "my_core", "Top", "crates/core/src/lib.rs"),
        ("crates/core/tests/t.rs", "my_core::a", "b", "crates/core/src/a/b.rs"),
        ("crates/cli/src/main.rs", "serde", "Serialize", None),
        ("crates/cli/src/main.rs", "std::io", "Read", None),
    ],
)
def test_rust(importer: str, module: str, name: str, meant: str | None) -> None:
    files = {f"crates/core/src/{file}" for file in ("lib.rs", "x.rs", "a/mod.rs", "a/b.rs", "a/sub.rs")} | {
        "crates/cli/src/lib.rs"
    }
    roots = Roots(crates=(("my-core", "crates/core"), ("cli", "crates/cli")))
    assert _meant("rust", importer, _import(module, name), files, roots) == meant


def test_c_headers() -> None:
    files = {"src/a.h", "include/lib/b.h"}
    assert _meant("c", "src/a.c", _import("a.h"), files) == "src/a.h"
    assert _meant("cpp", "src/a.c", _import("<lib/b.h>"), files) == "include/lib/b.h"


def test_an_unknown_language_has_none() -> None:
    assert candidates("cobol", "a.cob", _import("b")) == ()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["python", "typescript", "javascript", "go", "java", "rust", "c"]),
    st.text("ab/.\\:", max_size=12),
    st.text("aB./:*@#~?", max_size=12),
    st.sampled_from(["", "*", "b", "B", "default"]),
    st.integers(0, 5),
)
def test_for_anything_that_an_import_says(language: str, importer: str, module: str, name: str, level: int) -> None:
    roots = Roots(("lib",), (TS,), (("", "a"),), (("a", "b"),), (("a", "b"),))
    found = candidates(language, importer, _import(module, name, level), roots)
    assert len(found) == len(set(found)) <= MAX_CANDIDATES
    for path in found:
        assert path == "./" or not {"", ".", ".."}.intersection(path.removesuffix("/").split("/")), (
            "within the workspace, plain"
        )
