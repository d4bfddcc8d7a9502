"""Where imports lead, asked of a workspace that has such files and says where its modules lie."""

from __future__ import annotations

import pytest

from context.symbols import Import, symbols_of
from tests.index.conftest import House, write_all

FILES = (
    "app/main.py", "app/util.py", "app/__init__.py", "app/sub/__init__.py", "app/sub/deep.py", "src/lib/core.py",
    "tests/util.py",
    "web/src/a.ts", "web/src/b.tsx", "web/src/lib/index.ts", "web/src/comp/button.tsx", "web/src/c.js", "web/src/d.d.ts",
    "go/cmd/main.go", "go/internal/store/store.go", "go/internal/store/rows.go", "go/store/other.go",
    "j/src/main/java/com/acme/Thing.java", "j/src/main/java/com/acme/Other.java", "j/src/main/java/com/acme/use/Use.java",
    "crate/src/lib.rs", "crate/src/net/mod.rs", "crate/src/net/wire.rs", "crate/src/util.rs", "other-crate/src/lib.rs",
    "c/src/main.c", "c/src/local.h", "c/include/acme/api.h",
)  # fmt: skip
PROJECTS = {
    "web/tsconfig.json": """{ // a comment, and a URL "https://x" in it
        "compilerOptions": {"baseUrl": ".", /* aliases */ "paths": {"@/*": ["src/*"],},},
    }""",
    "go/go.mod": "// the module\nmodule example.com/acme/go\n\ngo 1.22\n",
    "other-crate/Cargo.toml": '[package]\nname = "other-crate"\n',
    "pyproject.toml": '[tool.setuptools.packages.find]\nwhere = ["src"]\n',
    "web/package.json": '{"name": "@acme/web"}',
}
# file, language, its text: what its first import leads to, the likeliest first; … = and perhaps others
TABLE = [
    ("app/main.py", "python", "from app.util import f", "app/util.py"),
    ("app/main.py", "python", "from app import util", "app/util.py app/__init__.py"),
    ("app/main.py", "python", "from . import util", "app/util.py app/__init__.py"),
    ("app/sub/deep.py", "python", "from ..util import f", "app/util.py"),
    ("app/sub/deep.py", "python", "from .... import x", ""),
    ("app/main.py", "python", "import lib.core", "src/lib/core.py"),
    ("app/main.py", "python", "import util", "app/util.py"),
    ("app/main.py", "python", "import app.sub.deep", "app/sub/deep.py"),
    ("app/main.py", "python", "import os", ""),
    ("web/src/a.ts", "typescript", "import { x } from './b'", "web/src/b.tsx"),
    ("web/src/a.ts", "typescript", "import { x } from './lib'", "web/src/lib/index.ts"),
    ("web/src/a.ts", "typescript", "import x from './b.js'", "web/src/b.tsx"),
    ("web/src/a.ts", "typescript", "import x from './c.js'", "web/src/c.js"),
    ("web/src/a.ts", "typescript", "import type { x } from './d'", "web/src/d.d.ts"),
    ("web/src/lib/index.ts", "typescript", "import { B } from '@/comp/button'", "web/src/comp/button.tsx"),
    ("web/src/comp/button.tsx", "typescriptreact", "import { B } from '../../src/a'", "web/src/a.ts"),
    ("web/src/a.ts", "typescript", "import react from 'react'", ""),
    ("web/src/a.ts", "typescript", "import x from '../../../../etc/passwd'", ""),
    ("go/cmd/main.go", "go", 'package main\nimport "example.com/acme/go/internal/store"', "go/internal/store/rows.go …"),
    ("go/cmd/main.go", "go", 'package main\nimport "fmt"', ""),
    ("j/src/main/java/com/acme/use/Use.java", "java", "import com.acme.Thing;", "j/src/main/java/com/acme/Thing.java"),
    ("j/src/main/java/com/acme/use/Use.java", "java", "import com.acme.*;", "j/src/main/java/com/acme/Other.java …"),
    ("j/src/main/java/com/acme/use/Use.java", "java", "import java.util.List;", ""),
    ("crate/src/lib.rs", "rust", "use crate::net::wire::Frame;", "crate/src/net/wire.rs …"),
    ("crate/src/net/wire.rs", "rust", "use super::super::util;", "crate/src/util.rs …"),
    ("crate/src/net/mod.rs", "rust", "use self::wire::Frame;", "crate/src/net/wire.rs …"),
    ("crate/src/lib.rs", "rust", "use other_crate::Thing;", "other-crate/src/lib.rs"),
    ("c/src/main.c", "c", '#include "local.h"', "c/src/local.h"),
    ("c/src/main.c", "c", "#include <acme/api.h>", "c/include/acme/api.h"),
    ("c/src/main.c", "c", "#include <stdio.h>", ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> House:
    home = tmp_path_factory.mktemp("imports").resolve()
    house = House(home / "ws", home / "cache")
    write_all(house.root, {**dict.fromkeys(FILES, ""), **PROJECTS})
    house.fill()
    return house


@pytest.mark.parametrize(("path", "language", "text", "leads_to"), TABLE, ids=[row[2] for row in TABLE])
def test_imports(filled: House, path: str, language: str, text: str, leads_to: str) -> None:
    imports = symbols_of(language, f"{text}\n".encode()).imports
    assert imports
    reader = filled.reader()
    found = [
        each.removeprefix(f"{filled.root}/")
        for each in reader.resolve(f"{filled.root}/{path}", language, imports[0])
    ]  # fmt: skip
    reader.close()
    wanted = leads_to.split()
    if wanted[-1:] == ["…"]:
        assert found[: len(wanted) - 1] == wanted[:-1]
    else:
        assert found == wanted


def test_what_project_files_say(filled: House) -> None:
    from lsp_server.index.projects import facts_of, roots_of

    facts = [fact for path, text in PROJECTS.items() for fact in facts_of(path, text.encode())]
    roots = roots_of(facts)
    assert roots.go_modules == (("go", "example.com/acme/go"),)
    assert roots.crates == (("other-crate", "other-crate"),)
    assert roots.packages == (("@acme/web", "web"),)
    assert roots.sources == ("src",)
    (script,) = roots.scripts
    assert (script.folder, script.base, script.paths) == ("web", "web", (("@/*", ("src/*",)),))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "1", '"x"', "{}", '{"compilerOptions": []}', '{"compilerOptions": {"paths": 3, "baseUrl": 7}}',
     '{"name": 5}', "[package]", "package = 3", "[tool]\npoetry = 1", "module", "[" * 5000,
     '{"compilerOptions": {"baseUrl": "../../.."}}', '[tool.setuptools.packages.find]\nwhere = 3'],
)  # fmt: skip
def test_project_files_that_say_nothing(text: str) -> None:
    from lsp_server.index.projects import NAMES, facts_of

    for name in NAMES:
        assert facts_of(f"d/{name}", text.encode()) == ()


def test_what_a_project_file_said_goes_with_it(house: House) -> None:
    write_all(house.root, {"m/go.mod": "module example.com/m\n", "m/p/x.go": "package p\n", "main.go": "package main\n"})
    house.fill()
    one = Import("example.com/m/p", "", "", 0, 0, 1)
    reader = house.reader()
    asked = (f"{house.root}/main.go", "go", one)
    assert reader.resolve(*asked) == (f"{house.root}/m/p/x.go",)
    (house.root / "m" / "go.mod").write_text("module example.com/other\n")
    house.fill("m/go.mod")
    assert reader.resolve(*asked) == ()
    reader.close()


def test_nothing_of_an_import_is_a_pattern(filled: House) -> None:
    reader = filled.reader()
    for module in ("%", "_", "a%/b", "'; DROP TABLE files; --", "", "..", "/", "\0"):
        for language in ("python", "typescript", "go", "java", "rust", "c", "cobol"):
            for name in ("", "*", "x"):
                reader.resolve(f"{filled.root}/app/main.py", language, Import(module, name, "", 0, 0, 1))
    assert reader.resolve("/elsewhere/x.py", "python", Import("app", "", "", 0, 0, 1)) == ()
    assert reader.files_named("main.py") == (f"{filled.root}/app/main.py",)
    reader.close()
