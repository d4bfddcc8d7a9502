"""Which files of the workspace an import may mean.

Owns the rules by which Python, Go, Java (Kotlin), Rust and C turn what an import says into a file's place, and the door to
those of TypeScript and JavaScript. Pure: gives paths in order of likelihood, the most particular first; which of them exist is
the caller's to see, and the first that does is meant. Refuses whatever lies outside the workspace: libraries, paths that climb
above the root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from context.import_roots import NOWHERE, Roots, ancestors, folder_of
from context.script_imports import script_candidates
from context.symbol_types import Import

__all__ = ["MAX_CANDIDATES", "NOWHERE", "Roots", "candidates"]

MAX_CANDIDATES = 64  # of one import; what comes after so many misses is a guess of a guess


def candidates(language: str, importer_path: str, import_: Import, roots: Roots = NOWHERE) -> tuple[str, ...]:
    """Workspace paths with slashes that an import may mean, likeliest first, none twice, at most MAX_CANDIDATES.

    language: an LSP id. importer_path: the importing file's workspace path. A path that ends with a slash means the files of
    that language directly in the folder (a Go package, a Java package), "./" those in the root. Nothing for other languages.
    Never raises.
    """
    resolve = _RESOLVERS.get(language)
    if resolve is None:
        return ()
    importer = importer_path.replace("\\", "/").removeprefix("./")
    found: dict[str, None] = {}
    for path in resolve(importer, import_, roots):
        plain = _normal(path)
        if plain is not None and plain != importer:
            found.setdefault(plain)
        if len(found) == MAX_CANDIDATES:
            break
    return tuple(found)


def _normal(path: str) -> str | None:
    """Without "." and ".."; None if it climbs above the workspace or names nothing."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts:
        return "./" if path.endswith("/") else None
    return "/".join(parts) + ("/" if path.endswith("/") else "")


def _beginnings(importer: str, first: str, roots: Roots) -> Iterator[str]:
    """Where an absolute import may begin: where the importer's own path holds its first part; what is declared; above."""
    folders = folder_of(importer).split("/")
    for i, folder in enumerate(folders):
        if folder == first:
            yield "/".join(folders[:i])
    yield from roots.sources
    for above in ancestors(folder_of(importer)):
        yield above
        yield f"{above}/src"
    yield from ("lib", "python")


def _python(importer: str, import_: Import, roots: Roots) -> Iterator[str]:
    parts = [part for part in import_.module.split(".") if part]
    if import_.level:
        folder = folder_of(importer)
        for _ in range(import_.level - 1):
            if not folder:
                return
            folder = folder_of(folder)
        yield from _python_files(folder, parts, import_.name)
        return
    if not parts:
        return
    for folder in _beginnings(importer, parts[0], roots):
        yield from _python_files(folder, parts, import_.name)


def _python_files(folder: str, parts: list[str], name: str) -> Iterator[str]:
    """A submodule of that name is meant before a name in the module; a folder without __init__.py is a package as well."""
    base = "/".join((folder, *parts))
    if name not in ("", "*"):
        yield from (f"{base}/{name}.py", f"{base}/{name}/__init__.py", f"{base}/{name}.pyi")
    if parts:
        yield from (f"{base}.py", f"{base}/__init__.py", f"{base}.pyi", f"{base}/__init__.pyi")
    else:
        yield f"{base}/__init__.py"


def _go(importer: str, import_: Import, roots: Roots) -> Iterator[str]:
    module = import_.module
    if module.startswith("."):
        yield f"{folder_of(importer)}/{module}/"
        return
    for folder, path in sorted(roots.go_modules, key=lambda each: -len(each[1])):
        if module == path or module.startswith(f"{path}/"):
            yield f"{folder}/{module[len(path) :]}/"
    parts = module.split("/")
    if "." not in parts[0]:  # of the standard library, if it is of no module here
        return
    yield from (f"{folder}/vendor/{module}/" for folder, _ in roots.go_modules)
    if not roots.go_modules:
        yield from ("/".join(parts[i:]) + "/" for i in range(2, len(parts)))


_JAVA_ROOT = re.compile(r"(?:.*/)?(?:src/\w+/(?:java|kotlin)|src|java)(?=/)")


def _java(importer: str, import_: Import, roots: Roots) -> Iterator[str]:
    parts = [part for part in import_.module.split(".") if part]
    if not parts or parts[0] in ("java", "javax", "jdk", "sun", "kotlin"):
        return
    if import_.name not in ("", "*"):
        parts.append(import_.name)
    # a class begins with a capital; what comes behind the first is inside it
    n_class = next((i + 1 for i, part in enumerate(parts) if part[:1].isupper()), 0)
    paths: list[str] = []
    if n_class:
        paths += ["/".join(parts[:n_class]) + extension for extension in (".java", ".kt")]
    elif import_.name != "*":
        paths += ["/".join(parts) + extension for extension in (".java", ".kt")]
    if not n_class:
        paths.append("/".join(parts if import_.name in ("", "*") else parts[:-1]) + "/")
    own = _JAVA_ROOT.match(importer)
    beginnings = [own[0], own[0].replace("/test/", "/main/")] if own is not None else []
    beginnings += [*roots.sources, "src/main/java", "src/main/kotlin", "src/test/java", "app/src/main/java"]
    for folder in (*_before(importer, parts[0]), *beginnings, *ancestors(folder_of(importer)), "src"):
        yield from (f"{folder}/{path}" for path in paths)


def _before(importer: str, first: str) -> list[str]:
    folders = folder_of(importer).split("/")
    return ["/".join(folders[: folders.index(first)])] if first in folders else []


def _rust(importer: str, import_: Import, roots: Roots) -> Iterator[str]:
    parts = [part for part in import_.module.split("::") if part]
    if import_.name not in ("", "*"):
        parts.append(import_.name)
    if not parts or parts[0] in ("std", "core", "alloc", "proc_macro"):
        return
    folder, _, file = importer.rpartition("/")
    stem = file.removesuffix(".rs")
    own = folder if stem in ("mod", "lib", "main") else f"{folder}/{stem}"  # where this module's children lie
    first = parts[0]
    if first == "crate":
        yield from _crate_files(_crate_folder(folder), parts[1:])
    elif first in ("self", "super"):
        for _ in range(parts.count("super")):
            own = folder_of(own)
        yield from _rust_files(own, [part for part in parts if part not in ("self", "super")])
        yield from (f"{own}.rs", f"{own}/mod.rs", f"{own}/lib.rs", f"{own}/main.rs")
    else:
        yield from _rust_files(own, parts)
        for name, place in roots.crates:
            if name.replace("-", "_") == first:
                yield from _crate_files(f"{place}/src", parts[1:])
        if not roots.crates:
            for place in (first, first.replace("_", "-")):
                yield from _crate_files(f"crates/{place}/src", parts[1:])
                yield from _crate_files(f"{place}/src", parts[1:])


def _crate_folder(folder: str) -> str:
    """The nearest src above; a file in tests or examples is a crate of its own."""
    parts = folder.split("/")
    return "/".join(parts[: len(parts) - parts[::-1].index("src")]) if "src" in parts else folder


def _crate_files(folder: str, parts: list[str]) -> Iterator[str]:
    yield from _rust_files(folder, parts)
    yield from (f"{folder}/lib.rs", f"{folder}/main.rs")


def _rust_files(folder: str, parts: list[str]) -> Iterator[str]:
    """The deepest module first: what is behind it are names in it. Types begin with a capital, modules do not."""
    for n in range(len(parts), 0, -1):
        if not parts[n - 1][:1].isupper():
            base = "/".join((folder, *parts[:n]))
            yield from (f"{base}.rs", f"{base}/mod.rs")


def _c(importer: str, import_: Import, roots: Roots) -> Iterator[str]:
    header = import_.module.strip("<>")
    if not import_.module.startswith("<"):
        yield f"{folder_of(importer)}/{header}"
    yield from (f"{folder}/{header}" for folder in roots.sources)
    for above in ancestors(folder_of(importer)):
        yield from (f"{above}/include/{header}", f"{above}/{header}", f"{above}/src/{header}")


_RESOLVERS: dict[str, Callable[[str, Import, Roots], Iterator[str]]] = {
    "python": _python,
    "go": _go,
    "java": _java,
    "kotlin": _java,
    "rust": _rust,
    "c": _c,
    "cpp": _c,
    **dict.fromkeys(("typescript", "typescriptreact", "javascript", "javascriptreact", "vue", "svelte"), script_candidates),
}
