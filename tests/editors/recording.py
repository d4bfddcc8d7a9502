"""What editors send when somebody accepts, types through, dismisses or undoes: `python -m tests.editors.recording EDITOR...`.

Drives each editor (`neovim-0.12`, `emacs-30`, `vscode`) through the list of DEEDS below and writes what has reached the
server, with what was done, to `tests/lsp_server/recordings/EDITOR.json`. The editors have to be there; `python -m` with
`tests.editors` fetches them. With `serve SCRIPT` it is the server of `tests.editors.server` that writes this down.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lsp_server import app, handlers
from lsp_server.__main__ import main
from tests.editors.editor import ROOT, Editor, Scene, until
from tests.editors.neovim import Neovim
from tests.editors.server import Client, Script, spy

FOLDER = ROOT / "tests/lsp_server/recordings"
QUIET_S = 0.6  # until a client has told the last change
BACK = "\x7f"


@dataclass(frozen=True, slots=True)
class Deed:
    """content: with `$0`. says: the model's text. keys: pressed first. shown: then this is the ghost. do: what is done with it.
    fate, n_accepted: what became of it."""

    name: str
    content: str
    says: str
    keys: str
    shown: str
    do: Callable[[Editor], None]
    fate: str
    n_accepted: int | None = 0
    deleted: bool = False


def _press(*actions: Any) -> Callable[[Editor], None]:
    """Actions by name; other texts are typed, key by key and with time between them."""

    def do(editor: Editor) -> None:
        for action in actions:
            if action in ("accept", "word", "line", "dismiss", "undo"):
                editor.press(action)
                time.sleep(0.3)
                continue
            for key in action:
                editor.type("\x08" if key == BACK and isinstance(editor, Neovim) else key)
                time.sleep(0.25)

    return do


def _leave(editor: Editor) -> None:
    editor.place(2, 3)
    editor.type("x")


TOTAL, ADD = "total = first_one(x) + 1", "    return a + b"
DEEDS = [
    Deed("whole", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("accept"), "whole", 22),
    Deed("whole-indented", "def add(a, b):\n    $0\n", ADD, "re", "turn a + b", _press("accept"), "whole", 10),
    Deed("word-then-other", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("word", "9", "9"), "partly", 3),
    # a word of one character, as some editors have them, is a key to whoever sees the text alone
    Deed("words-then-whole", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("word", "word", "accept"), "whole", None),
    Deed("typed-through", "def add(a, b):\n    $0\n", ADD, "re", "turn a + b", _press("turn a + b"), "typed"),
    Deed("typed-then-whole", "def add(a, b):\n    $0\n", ADD, "re", "turn a + b", _press("tur", "accept"), "whole", 7),
    Deed("diverged", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("x"), "diverged"),
    Deed("typed-then-diverged", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("ta", "x"), "diverged"),
    Deed("dismissed-then-other", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("dismiss", "p"), "diverged"),
    Deed("undone", "$0\n", TOTAL, "to", "tal = first_one(x) + 1", _press("accept", "undo"), "whole", 22, True),
    Deed("left", "$0\n\nend()\n", TOTAL, "to", "tal = first_one(x) + 1", _leave, "ignored"),
    Deed("utf16", "s = '🦊🦊'; $0\n", "total = 12", "to", "tal = 12", _press("accept"), "whole", 8),
    Deed("crlf", "one\r\n$0\r\ntwo\r\n", "total = 12", "to", "tal = 12", _press("accept"), "whole", 8),
    Deed("behind", "call($0)\n", "total, 1)", "to", "tal, 1", _press("accept"), "whole", None),
    Deed("typed-back", "$0\n", TOTAL, "tot", "al = first_one(x) + 1", _press(3 * BACK), "ignored"),
]


def record(name: str) -> list[dict[str, Any]]:
    from tests.editors.conftest import start

    with tempfile.TemporaryDirectory(prefix="mfrec") as folder:
        scene = Scene(Path(folder), settings="prefetch = false\n")
        scene.server = (sys.executable, "-m", "tests.editors.recording", "serve", str(scene.script))
        editor = start(name, scene)
        try:
            editor.open(scene.file("", "first.py"))
            until(lambda: "ready" in editor.status(), "the server", wait_s=120)
            streams = []
            for number, deed in enumerate(DEEDS):
                try:
                    streams.append(_one(deed, number, editor, scene))
                except AssertionError as error:
                    sys.stdout.write(f"  NOT RECORDED: {error}\n")
            return streams
        finally:
            editor.quit()


def _one(deed: Deed, number: int, editor: Editor, scene: Scene) -> dict[str, Any]:
    scene.say(deed.says)
    before, _, after = deed.content.partition("$0")
    path = scene.file(before + after, f"deed{number}.py")
    editor.open(path)

    def mine(event: str) -> list[dict[str, Any]]:
        return [one for one in scene.heard(event) if unquote(one["uri"]).endswith(f"/{path.name}")]

    until(lambda: mine("open"), f"{path.name} at the server")
    editor.place(before.count("\n"), len(before.rpartition("\n")[2]))
    editor.type(deed.keys)  # at once: the scripted model sticks to what it said behind the first key
    until(lambda: editor.ghost() == deed.shown, f"{deed.name}: the ghost {deed.shown!r} instead of {editor.ghost()!r}")
    time.sleep(0.3)
    deed.do(editor)
    time.sleep(QUIET_S)
    events = mine("recorded")
    for one in events:
        del one["uri"], one["event"]
    start_s = events[0]["t"] if events else 0.0
    for one in events:
        one["t"] = round(one["t"] - start_s, 3)
    wanted = {"fate": deed.fate, "n_accepted": deed.n_accepted, "deleted": deed.deleted}
    sys.stdout.write(f"  {deed.name}: {len(events)} events\n")
    sys.stdout.flush()
    return {"deed": deed.name, "text": before + after, "wanted": wanted, "events": events}


def spy_on_edits(script: Script) -> None:
    room = handlers.Room
    changed, asked, accepted = room.did_change, room.inline_completion, room.accepted
    last = [""]

    def note(uri: str, **more: Any) -> None:
        last[0] = uri
        script.note("recorded", uri=uri, t=time.monotonic(), **more)

    def did_change(self: Any, params: Any) -> None:
        changes = [{"text": c.text, "range": _span(getattr(c, "range", None))} for c in params.content_changes]
        note(params.text_document.uri, changes=changes, encoding=self._protocol.encoding)
        changed(self, params)

    async def inline_completion(self: Any, params: Any) -> Any:
        at = params.position
        answer = asked(self, params)
        answer = answer if not hasattr(answer, "__await__") else await answer
        items = [
            {"text": item.insert_text, "range": _span(item.range), "id": item.command.arguments[0]} for item in answer.items
        ]
        note(params.text_document.uri, asked=[at.line, at.character], items=items, encoding=self._protocol.encoding)
        return answer

    def note_accepted(self: Any, *arguments: Any) -> None:
        note(last[0], accepted=arguments[0])
        accepted(self, *arguments)

    room.did_change, room.accepted = did_change, note_accepted  # type: ignore[method-assign]
    room.inline_completion = inline_completion  # type: ignore[method-assign]


def _span(found: Any) -> Any:
    return found and [found.start.line, found.start.character, found.end.line, found.end.character]


def serve(path: str) -> int:
    script = Script(Path(path))
    spy(script)
    spy_on_edits(script)
    app.build = functools.partial(app.build, None, lambda config, _progress: Client(script, config))
    return main(["lsp"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        sys.exit(serve(sys.argv[2]))
    FOLDER.mkdir(exist_ok=True)
    for each in sys.argv[1:]:
        sys.stdout.write(f"{each}\n")
        streams = record(each)
        lines = ",\n".join(json.dumps(stream, ensure_ascii=False) for stream in streams)
        (FOLDER / f"{each}.json").write_text(f"[\n{lines}\n]\n")
