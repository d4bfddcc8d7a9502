"""docs/settings.md, from the settings themselves: `python -m lsp_server.commands.settings_page`."""

from __future__ import annotations

import sys

from lsp_server.bounds import BOUNDS, WANTED, shown
from lsp_server.config import FILE_NAME, FILE_VARIABLE, SECTION, Config, rooms


def render_settings() -> str:
    """docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Made by `python -m lsp_server.commands.settings_page` from the code; a test holds it fresh.",
        "",
        f"They are read from `{FILE_NAME}` in the user's configuration directory (the environment variable `{FILE_VARIABLE}`",
        "names another file), then from the editor's `initializationOptions`, then from its configuration section",
        f"`{SECTION}`; the later one wins. In each, `name = value` and a table (`[engine]`, then `n_ctx = 4096`) both work.",
        "A wrong value is reported and the one before it stays. `n_ctx` may also be spelt `nCtx` or `engine.n_ctx`.",
    ]
    last = ""
    for room, part, one in rooms(Config()):
        if room != last:
            lines += ["", f"## {room}", "", "| name | type | default | applies | meaning |", "|---|---|---|---|---|"]
            last = room
        bound = BOUNDS.get(one.name)
        kind = str(bound) if bound and bound.choices else WANTED[str(one.type)] + (f", {bound}" if bound else "")
        applies = "at once" if one.metadata["live"] else "after a restart"
        meaning = f"{one.metadata['doc']}{' May differ by language.' if one.metadata.get('by_language') else ''}"
        value = "{ }" if one.type == "ByLanguage" else shown(getattr(part, one.name))
        lines.append(f"| `{one.name}` | {kind} | `{value}` | {applies} | {meaning} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_settings())
