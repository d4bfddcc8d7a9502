"""Which files a TypeScript or JavaScript import may mean.

Owns the endings that may be left out or stand for another, index files, the aliases of tsconfig.json, and the packages of a
workspace. Paths may still hold "." and ".."; `context.imports` puts them right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from context.import_roots import Roots, ancestors, folder_of
from context.symbol_types import Import

_TS_FIRST = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".vue", ".svelte", ".json")
_JS_FIRST = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".d.ts", ".mts", ".cts", ".vue", ".svelte", ".json")
_WRITTEN_AS = {  # TypeScript imports what it will be compiled to
    ".js": (".ts", ".tsx", ".d.ts", ".js", ".jsx"),
    ".jsx": (".tsx", ".jsx"),
    ".mjs": (".mts", ".d.mts", ".mjs"),
    ".cjs": (".cts", ".d.cts", ".cjs"),
}
_EXTENSION = re.compile(
    r"\.(?:d\.[mc]?ts|[mc]?[jt]s|[jt]sx|json|vue|svelte|css|scss|sass|less|svg|graphql|gql|html|wasm|txt|md)$"
)


def script_candidates(importer: str, import_: Import, roots: Roots) -> Iterator[str]:
    module = import_.module.split("?", 1)[0]
    if not module or ":" in module:  # node:fs, an address
        return
    extensions = _TS_FIRST if re.search(r"\.(?:[mc]?ts|tsx|vue|svelte)$", importer) else _JS_FIRST
    if module.startswith((".", "/")):
        base = module if module.startswith("/") else f"{folder_of(importer)}/{module}"
        yield from _script_files(base, extensions)
        return
    for base in _script_bases(importer, module, roots):
        yield from _script_files(base, extensions)


def _script_files(base: str, extensions: tuple[str, ...]) -> Iterator[str]:
    is_folder = base.endswith(("/", "/.", "/.."))
    base = base.rstrip("/") if base.endswith("/") else base
    written = _EXTENSION.search(base)
    if written is not None:
        stem = base[: written.start()]
        yield from (stem + extension for extension in _WRITTEN_AS.get(written[0], (written[0],)))
        yield base
        return
    if not is_folder:
        yield from (base + extension for extension in extensions)
    yield from (f"{base}/index{extension}" for extension in extensions[:9])


def _script_bases(importer: str, module: str, roots: Roots) -> Iterator[str]:
    """What a bare name stands for: an alias of the nearest tsconfig, a package of the workspace, a usual alias of sources."""
    above = [config for config in roots.scripts if not config.folder or importer.startswith(f"{config.folder}/")]
    for config in sorted(above, key=lambda each: -len(each.folder)):
        base = config.folder if config.base is None else config.base
        yield from (f"{base}/{target}" for target in _mapped(module, config.paths))
        if config.base is not None:
            yield f"{config.base}/{module}"
    for name, folder in sorted(roots.packages, key=lambda each: -len(each[0])):
        if module == name:
            yield from (
                f"{folder}/src/index",
                f"{folder}/index",
                f"{folder}/lib/index",
                f"{folder}/src/{name.rpartition('/')[2]}",
            )
        elif module.startswith(f"{name}/"):
            rest = module[len(name) + 1 :]
            yield from (f"{folder}/{rest}", f"{folder}/src/{rest}")
    alias, _, rest = module.partition("/")
    if alias in ("@", "~", "src", "app") and rest:
        for folder in ancestors(folder_of(importer)):
            yield from (
                (f"{folder}/{alias}/{rest}",) if alias in ("src", "app") else (f"{folder}/src/{rest}", f"{folder}/{rest}")
            )
    elif roots.sources:
        yield from (f"{folder}/{module}" for folder in roots.sources)


def _mapped(module: str, paths: tuple[tuple[str, tuple[str, ...]], ...]) -> Iterator[str]:
    """The targets of the pattern that fits best: the name itself, else the one with the longest beginning before its star."""
    best: tuple[int, str, tuple[str, ...]] | None = None
    for pattern, targets in paths:
        before, star, after = pattern.partition("*")
        if not star:
            if module == pattern:
                yield from targets
                return
        elif module.startswith(before) and module.endswith(after) and len(module) >= len(before) + len(after):
            if best is not None and len(before) <= best[0]:
                continue
            best = len(before), module[len(before) : len(module) - len(after)], targets
    if best is not None:
        yield from (target.replace("*", best[1], 1) for target in best[2])
