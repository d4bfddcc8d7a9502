"""The settings in package.json, from the server's own: `python -m editors.vscode.settings` writes them.

Owns how a setting is spelt, typed and scoped in VS Code, and which of them a workspace may only change if it is trusted.
Refuses to have defaults of its own for what the server knows.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import Field
from pathlib import Path
from typing import Any

from lsp_server import by_language
from lsp_server.bounds import BOUNDS
from lsp_server.config import SECTION, Config, rooms

MANIFEST = Path(__file__).with_name("package.json")
TITLES = {"server": "Suggestions", "context": "Prompt", "engine": "Engine and Models"}
# Besides free texts and the engine's lists: they name files, addresses, programs.
RESTRICTED = ("exclude", "shared_engine")
ADDED = ("exclude",)  # to the built-in list: in an editor one writes only what is to be added
LATER = " *Takes effect when the server is restarted.*"

OWN: dict[str, dict[str, Any]] = {
    "server.path": {
        "type": "string",
        "default": "",
        "scope": "machine-overridable",
        "markdownDescription": "The program `midfill`, or its name on the PATH. Empty: the one on the PATH, or else the one "
        "that this extension sets up.",
    },
    "server.python": {
        "type": "string",
        "default": "",
        "scope": "machine-overridable",
        "markdownDescription": "The Python (3.11 or newer) that the server is set up with. Empty: the first that is found on "
        "the PATH.",
    },
    "server.logLevel": {
        "type": "string",
        "default": "",
        "enum": ["", "debug", "info", "warning", "error"],
        "scope": "machine-overridable",
        "markdownDescription": "How much the server logs; empty: `info`. With `debug` the log may hold text of yours.",
    },
    "server.patienceSeconds": {
        "type": "number",
        "default": 10,
        "minimum": 0,
        "scope": "machine-overridable",
        "markdownDescription": "How long the server may leave a request unanswered before you are told; 0: for ever.",
    },
    "trace.server": {
        "type": "string",
        "default": "off",
        "enum": ["off", "messages", "verbose"],
        "scope": "window",
        "markdownDescription": "Messages between editor and server, in the log. They hold your text.",
    },
}
OWN_RESTRICTED = ("server.path", "server.python", "server.logLevel", "trace.server")


def spelt(name: str) -> str:
    """n_ctx → nCtx."""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)


def _schema(room: str, part: Any, one: Field[Any]) -> dict[str, Any]:
    bound, default = BOUNDS.get(one.name), getattr(part, one.name)
    schema: dict[str, Any] = {}
    if bound and bound.choices:
        schema = {"type": "string", "enum": list(bound.choices)}
    elif one.type == "ByLanguage":
        fields = {spelt(name): _schema(room, part, each) for name, each in by_language.names(part).items()}
        each = {"type": "object", "properties": fields, "additionalProperties": False}
        schema, default = {"type": "object", "additionalProperties": each}, {}
    elif one.type == "tuple[str, ...]":
        schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
        default = [] if one.name in ADDED else list(default)
    else:
        schema = {"type": {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}[str(one.type)]}
        if bound:
            schema |= {"minimum": bound.low, "maximum": bound.high}
    text = one.metadata["doc"] + ("" if one.metadata["live"] else LATER)
    scope = "machine-overridable" if room == "engine" else "window"
    return {**schema, "default": default, "scope": scope, "markdownDescription": text}


def configuration() -> list[dict[str, Any]]:
    """`contributes.configuration`: a page for the client, then one for each of the server's rooms."""
    own = {f"{SECTION}.{name}": schema for name, schema in OWN.items()}
    pages: list[dict[str, Any]] = [{"title": "Server", "order": 0, "properties": own}]
    last = ""
    for room, part, one in rooms(Config()):
        if room != last:
            pages.append({"title": TITLES[room], "order": len(pages), "properties": {}})
            last = room
        pages[-1]["properties"][f"{SECTION}.{spelt(one.name)}"] = _schema(room, part, one)
    return pages


def restricted() -> list[str]:
    """`capabilities.untrustedWorkspaces.restrictedConfigurations`."""
    named = [spelt(one.name) for room, _, one in rooms(Config()) if one.name in RESTRICTED or _names_something(room, one)]
    return [f"{SECTION}.{name}" for name in (*OWN_RESTRICTED, *named)]


def _names_something(room: str, one: Field[Any]) -> bool:
    bound = BOUNDS.get(one.name)
    is_free = one.type == "str" and not (bound and bound.choices)
    return is_free or (one.type == "tuple[str, ...]" and room == "engine")


def render() -> str:
    """package.json, with the settings as the server has them now."""
    manifest = json.loads(MANIFEST.read_text())
    manifest["contributes"]["configuration"] = configuration()
    manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"] = restricted()
    return json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    MANIFEST.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
