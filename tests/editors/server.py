"""The command `midfill lsp` with a scripted model, as the editors under test start it: `python -m tests.editors.server SCRIPT`.

SCRIPT is a JSON file, read again at every request: `says`, texts that the model goes on with wherever the text before the
cursor ends with the beginning of one; `least`, how many characters of a text must stand there already; `others`, by such a
text, further suggestions for a request that was invoked; `slow_column`: requests there are not answered as long as it stands
there; `hangs`, whether the server hangs, with all that it does. What reaches it is written beside SCRIPT, a JSON object per
line (`SCRIPT.log`).
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lsprotocol import types

from inference.config import EngineConfig
from inference.types import FinishReason, GenerationRequest, GenerationStats, Priority, TokenEvent
from lsp_server import app, handlers
from lsp_server.__main__ import main
from tests.cases.scripted import Model, ScriptedClient, SeenPrompt

_LEAST = 2


class Script:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(path.name + ".log")

    def read(self) -> Mapping[str, Any]:
        script: Mapping[str, Any] = json.loads(self._path.read_text())
        return script

    def rest(self, before: str) -> str:
        """What the model says behind this text."""
        script, best = self.read(), ""
        longest = script.get("least", _LEAST) - 1
        for text in script.get("says", ()):
            for n in range(len(text) - 1, longest, -1):
                if before.endswith(text[:n]):
                    best, longest = text[n:], n
                    break
        return best

    def note(self, event: str, **more: object) -> None:
        with self._log.open("a") as log:
            log.write(json.dumps({"event": event, **more}) + "\n")


class Client(ScriptedClient):
    def __init__(self, script: Script, config: EngineConfig) -> None:
        super().__init__(Model.saying(), config)
        self._script = script

    def submit(self, request: GenerationRequest) -> Any:
        """Where the script has nothing to say the engine is not asked: it would remember that end, and what it makes up instead
        would be healed on when the next character is typed."""
        is_said = request.priority is Priority.TYPING or (request.priority is Priority.PREFETCH and request.n_max)
        if is_said and not self._rest(request):
            self._note(request)
            return _Silence(request)
        return super().submit(request)

    def _before(self, request: GenerationRequest) -> str:
        return SeenPrompt.of(request, self.model.vocab).before

    def _rest(self, request: GenerationRequest) -> str:
        return self._script.rest(self._before(request))

    def _says(self, request: GenerationRequest, n_before: int) -> tuple[int, ...]:
        self._note(request)
        return self.model.vocab.encode_special(self._rest(request))

    def _note(self, request: GenerationRequest) -> None:
        self._script.note("generation", before=self._before(request))


class _Silence:
    def __init__(self, request: GenerationRequest) -> None:
        self._event = TokenEvent(request.request_id, "", GenerationStats(), FinishReason.STOP)

    async def next(self) -> TokenEvent:
        return self._event

    def cancel(self) -> None:
        return


def spy(script: Script) -> None:
    """Write down what editors send, and spoil the answers as the script says."""
    room = handlers.Room
    opened, closed, asked, accepted = room.did_open, room.did_close, room.inline_completion, room.accepted

    def did_open(self: Any, params: Any) -> None:
        document = params.text_document
        script.note("open", uri=document.uri, language=document.language_id, text=document.text)
        opened(self, params)

    def did_close(self: Any, params: Any) -> None:
        script.note("close", uri=params.text_document.uri)
        closed(self, params)

    async def inline_completion(self: Any, params: Any) -> Any:
        answer, at = asked(self, params), params.position
        script.note("request", kind=int(params.context.trigger_kind), line=at.line, column=at.character)
        try:
            while script.read().get("hangs"):  # and nothing else is answered either
                time.sleep(0.05)
            answer = answer if not hasattr(answer, "__await__") else await answer
            script.note("found", column=at.character, texts=[item.insert_text for item in answer.items])
            while script.read().get("slow_column") == at.character:  # it is known, and on its way for long
                await asyncio.sleep(0.02)
        finally:
            script.note("answer", line=at.line, column=at.character)
        if params.context.trigger_kind == 1:
            answer.items = [*answer.items, *_others(script, list(answer.items))]
        return answer

    def note_accepted(self: Any, *arguments: Any) -> None:
        script.note("accepted", arguments=arguments)
        accepted(self, *arguments)

    for name, spied in {"did_open": did_open, "did_close": did_close, "accepted": note_accepted}.items():
        setattr(room, name, spied)
    room.inline_completion = inline_completion  # type: ignore[method-assign]


def _others(script: Script, items: list[Any]) -> list[Any]:
    others = script.read().get("others", {})
    return [
        types.InlineCompletionItem(insert_text=text, range=item.range, command=item.command)
        for item in items
        for text in others.get(item.insert_text, ())
    ]


if __name__ == "__main__":
    script = Script(Path(sys.argv[1]))
    script.note("start", pid=os.getpid(), at=time.time())
    spy(script)
    app.build = functools.partial(app.build, None, lambda config, _progress: Client(script, config))
    sys.exit(main(["lsp"]))
