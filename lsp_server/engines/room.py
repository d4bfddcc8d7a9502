"""Which engine this server works with: opened, lost, restarted, exchanged for another model's.

Owns what the editor is told of it, and the commands `midfill.restartEngine`, `midfill.selectModel` and `midfill.stats`. Nothing
here blocks the event loop. Refuses to know how an engine is come by (`ways`) and what it is asked (`completer`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from inference.backoff import Backoff
from inference.clients.http_session import Gone
from inference.models import registry, store
from inference.models.choice import AUTO
from inference.types import EngineError
from inference.wire import EngineState, News
from lsp_server.completer import Completions
from lsp_server.config import Config
from lsp_server.engines.ways import Ears, Opened, Way
from lsp_server.status import State, Status
from lsp_server.wire.protocol import Server

log = logging.getLogger(__name__)

RESTARTING = "the engine is being restarted"


class EngineRoom:
    """config: the settings of this moment."""

    def __init__(
        self, server: Server, completer: Completions, status: Status, way: Way, config: Callable[[], Config], version: str
    ) -> None:
        self._server = server
        self._completer = completer
        self._status = status
        self._way = way
        self._config = config
        self._version = version
        self._opened: Opened | None = None
        self._opening: asyncio.Task[None] | None = None
        self._backoff = Backoff(lambda: asyncio.get_running_loop().time())
        self._why = ""  # the last attempt to open one has failed
        self._message = ""
        self._model = ""  # chosen by command; "" = as in the settings
        self._is_well = False  # the engine that is there can be asked
        self._may_try_again = False
        self._shown: set[str] = set()
        completer.on_thinking = self._thinking
        completer.on_needed = self._needed
        commands = {
            "midfill.restartEngine": self.restart,
            "midfill.selectModel": self.select_model,
            "midfill.stats": self.stats,
        }
        for name, command in commands.items():
            server.command(name)(partial(command))

    def start(self, _config: Config) -> None:
        """The settings are known as well as they will be."""
        self._open_soon()

    async def aclose(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    # -- commands

    async def restart(self, *_arguments: Any) -> dict[str, object]:
        """End the engine, whoever uses it, and start it with the settings of this server."""
        await self._stop_opening()
        opened, self._opened = self._opened, None
        self._completer.detach(RESTARTING)
        self._backoff.succeeded()
        self._shown.clear()
        if opened is not None:
            await opened.aclose()
        self._open_soon(fresh=True)
        return await self._outcome()

    async def select_model(self, *arguments: Any) -> dict[str, object]:
        """[id]: work with that model from now on, until this server ends. Without: which there are."""
        wanted = arguments[0] if arguments else None
        if wanted is None:
            return {"models": await asyncio.to_thread(_models, self._engine_config().models_dir), "current": self._current()}
        if not isinstance(wanted, str) or not wanted.strip():
            raise JsonRpcInvalidParams("midfill.selectModel takes the id of a model, or nothing")
        await self._stop_opening()
        before, self._model = self._model, wanted.strip()
        self._backoff.succeeded()
        self._open_soon()
        told = await self._outcome()
        if not told["ready"]:
            self._model = before
        return told

    async def stats(self, *_arguments: Any) -> dict[str, object]:
        """What the engine and this server have done."""
        counters = self._completer.counts()
        server: dict[str, object] = {"pid": os.getpid(), "version": self._version, "model": self._current(), **counters}
        return {"server": server, "engine": await self._opened.stats() if self._opened is not None else None}

    async def _outcome(self) -> dict[str, object]:
        assert self._opening is not None
        await asyncio.wait({self._opening})
        if self._why:
            return {"ready": False, "model": self._current(), "reason": self._why}
        return {"ready": True, "model": self._current()}

    def _current(self) -> str:
        return self._opened.client.model_name if self._opened is not None else ""

    # -- opening

    def _engine_config(self) -> Any:
        engine = self._config().engine
        return replace(engine, model=self._model) if self._model else engine

    def _open_soon(self, *, fresh: bool = False) -> None:
        config = replace(self._config(), engine=self._engine_config())
        self._opening = asyncio.get_running_loop().create_task(self._open(config, fresh=fresh))

    async def _stop_opening(self) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening})

    async def _open(self, config: Config, *, fresh: bool) -> None:
        """What was there before stays until the new one is."""
        model = config.engine.model
        self._message = "loading the model that was chosen" if model == AUTO else f"loading {model}"
        self._status.set(State.LOADING, self._message, 0)
        self._may_try_again, self._why = False, ""
        ears = Ears(self._heard, self._lost, self._revived, self._backoff)
        try:
            opened = await self._way.open(config, ears, fresh=fresh)
        except Gone as error:
            self._may_try_again = True
            self._backoff.failed()
            self._fail(str(error))
        except EngineError as error:
            self._fail(str(error))
        except Exception as error:
            log.debug("details", exc_info=True)
            self._fail(f"the model {model} could not be loaded ({type(error).__name__}); MIDFILL_LOG=debug shows more")
        else:
            await self._take(opened)

    async def _take(self, opened: Opened) -> None:
        before = self._opened
        try:
            self._completer.attach(opened.client)
        except EngineError as error:  # the model is there, and would do with another layout
            if before is not None:
                with contextlib.suppress(EngineError):
                    self._completer.attach(before.client)
                await opened.aclose()
            else:
                self._opened = opened
            self._fail(str(error))
            self._is_well = True
            return
        self._opened, self._is_well = opened, True
        self._say_ready(*opened.notes)
        for notice in opened.notices:
            self._show(notice, types.MessageType.Warning)
        if before is not None:
            await before.aclose()

    def _fail(self, sentence: str) -> None:
        log.error("%s", sentence)
        self._why = sentence
        if self._opened is not None and self._model:
            self._say_ready()  # another model was asked for: the one before stays
        else:
            self._is_well = False
            self._completer.not_ready = sentence
            self._status.set(State.ERROR, sentence)
        self._show(sentence, types.MessageType.Error)

    def _needed(self) -> None:
        """A request has come, and there is no engine."""
        is_opening = self._opening is not None and not self._opening.done()
        if self._may_try_again and not is_opening and not self._backoff.wait_s():
            self._open_soon()

    # -- what the engine tells

    def _heard(self, news: News) -> None:
        if news.state is EngineState.LOADING:
            self._is_well = False
            self._status.set(State.LOADING, self._message, news.share * 100)
        elif self._opened is None or news.state is EngineState.DRAINING:
            return
        elif news.why:
            self._is_well = news.state is EngineState.UNLOADED
            self._status.set(State.ERROR, news.why)
        elif news.state is EngineState.UNLOADED:
            self._is_well = True
            self._status.set(State.READY, f"{self._current()} is not in memory; the next request loads it")
        else:
            self._is_well = True
            self._say_ready()

    def _lost(self, why: str, is_hopeless: bool) -> None:
        self._is_well = False
        log.warning("%s", why)
        later = "the next request that needs it starts it again"
        if is_hopeless:
            later = "it is left alone for a while, unless the command midfill.restartEngine is run"
        sentence = f"{why.rstrip('.')}; {later}"
        self._status.set(State.ERROR, sentence)
        if is_hopeless:
            self._show(sentence, types.MessageType.Error)

    def _revived(self) -> None:
        """Perhaps with other settings."""
        if self._opened is not None and self._completer.client is self._opened.client:
            self._completer.refresh()

    def _say_ready(self, *notes: str) -> None:
        self._status.set(State.READY, "; ".join([f"{self._current()} is ready", *notes]))

    def _thinking(self, is_busy: bool, reason: str) -> None:
        if not self._is_well or self._completer.client is None:
            return
        if is_busy:
            self._status.set(State.THINKING)
        elif self._completer.is_paused:
            self._status.set(State.PAUSED)
        else:
            self._status.set(State.READY, reason=reason)

    def _show(self, sentence: str, kind: types.MessageType) -> None:
        """Each sentence once."""
        if sentence in self._shown:
            return
        self._shown.add(sentence)
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=f"midfill: {sentence}"))


def _models(setting: str) -> list[dict[str, object]]:
    """Those that could be selected, and those that a pull would bring."""
    directory = store.models_dir(setting)
    present = {entry.model.id for entry in store.installed(directory)}
    return [
        {"id": model.id, "name": model.title, "is_on_disk": model.id in present, "bytes": model.bytes}
        for model in registry.MODELS
    ]
