"""Languages: which one a file is in, by name and first bytes.

Owns the ids (those of LSP), file extensions, file names and interpreters. Refuses the disk: the first bytes are given. Which of
them has a grammar is `grammars`.
"""

from __future__ import annotations

import re

_EXTENSIONS = {
    "python": "py pyi pyw pyx",
    "typescript": "ts mts cts",
    "typescriptreact": "tsx",
    "javascript": "js mjs cjs es6",
    "javascriptreact": "jsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ inl ipp tpp cu cuh ino",
    "csharp": "cs csx",
    "ruby": "rb rake gemspec ru rbi podspec",
    "php": "php php5 phtml",
    "kotlin": "kt kts",
    "swift": "swift",
    "lua": "lua rockspec",
    "shellscript": "sh bash zsh ksh bats",
    "html": "html htm xhtml",
    "css": "css",
    "sql": "sql ddl pgsql",
    "json": "json webmanifest ipynb",
    "jsonc": "jsonc code-workspace",
    "yaml": "yaml yml",
    "toml": "toml",
    "markdown": "md markdown mdown",
    "scala": "scala sc sbt",
    "zig": "zig zon",
}
_NAMES = {
    "python": "SConstruct SConscript wscript",
    "ruby": "Gemfile Rakefile Podfile Vagrantfile Brewfile Guardfile Fastfile",
    "shellscript": ".bashrc .bash_profile .bash_aliases .profile .zshrc .zshenv .zprofile PKGBUILD",
    "json": ".babelrc .eslintrc .prettierrc composer.lock Pipfile.lock .jshintrc",
    "jsonc": "tsconfig.json jsconfig.json",
    "toml": "Cargo.lock Pipfile poetry.lock uv.lock",
    "yaml": ".clang-format .clang-tidy .clangd",
}
_INTERPRETERS = {
    "python": "python pypy",
    "javascript": "node nodejs deno bun",
    "typescript": "ts-node tsx",
    "ruby": "ruby rbx jruby",
    "php": "php",
    "lua": "lua luajit texlua",
    "shellscript": "sh bash zsh ksh dash ash",
    "swift": "swift",
    "kotlin": "kotlin kotlinc",
    "scala": "scala amm",
}

_BY_EXTENSION = {extension: language for language, names in _EXTENSIONS.items() for extension in names.split()}
_BY_NAME = {name: language for language, names in _NAMES.items() for name in names.split()}
_BY_INTERPRETER = {name: language for language, names in _INTERPRETERS.items() for name in names.split()}

LANGUAGES = tuple(_EXTENSIONS)

# `#!/usr/bin/env -S VAR=1 python3.11 -u`: the first word of the last component that is neither an option nor an assignment.
_SHEBANG = re.compile(
    rb"\A(?:\xef\xbb\xbf)?#![ \t]*(?:\S*/)?(?:env(?:[ \t]+(?:-\S+|\w+=\S*))*[ \t]+(?:\S*/)?)?([A-Za-z-]+)[\d.]*(?=\s|\Z)"
)
_LOOK_AT = 16 * 1024  # bytes of a header that tell C++ from C
# None of these is C, and hardly any C++ header has none of them. Comments and strings may lie: both languages look alike then.
_CPP_HEADER = re.compile(
    rb"^[ \t]*(?:class[ \t]+\w+[^;]*\{|namespace\b|template[ \t]*<|using[ \t]+\w|public:|private:|protected:)"
    rb"|^[ \t]*#[ \t]*include[ \t]*<[a-z_]+>|\b(?:std|boost)::",
    re.M,
)


def language_of(path: str, data: bytes = b"") -> str:
    """LSP's id of the language of a file; "" if it is none that is known here.

    path: any spelling, slashes of either kind. data: its bytes, or the first of them; without them a file that only its first
    line tells about is unknown, and a C header is C.
    """
    name = re.split(r"[/\\]", path)[-1]
    language = _BY_NAME.get(name, "")
    if not language and "." in name.lstrip("."):
        language = _BY_EXTENSION.get(name.rsplit(".", 1)[1].lower(), "")
        if language == "c" and name.endswith((".C", ".H")):  # upper case is C++, as compilers take it
            return "cpp"
        if language == "c" and name.endswith(".h") and _CPP_HEADER.search(data[:_LOOK_AT]):
            return "cpp"
        return language
    return language or _of_shebang(data)


def _of_shebang(data: bytes) -> str:
    found = _SHEBANG.match(data[:256])
    return _BY_INTERPRETER.get(found[1].decode().lower(), "") if found else ""
