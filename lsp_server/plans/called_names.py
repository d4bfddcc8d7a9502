"""Which names that a text calls are defined somewhere in the workspace: asked of the index while the model still speaks, so
that it is known when the text is judged, and no request ever waits for it.

Each name that a generation calls is asked about once, the moment it was said; an answer takes a millisecond or two, a token
twenty. Answers are kept for the next text and asked anew after a while, the old one serving meanwhile. What is not answered in
time counts as known: only what the index denies is held against a text. A document that the index does not cover has none.
Lives on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable

from lsp_server.plans.inquiry import Index

log = logging.getLogger(__name__)

REFRESH_S = 10.0
_MOST = 1024  # answers kept
_CALLED = re.compile(r"(?<![\w.])([^\W\d]\w{0,63})\s?\(")

Defined = Callable[[str], bool]


def nobody(_name: str) -> bool:
    """Without an index."""
    return False


class CalledNames:
    """index: None: nothing is defined elsewhere."""

    def __init__(self, index: Index | None, clock: Callable[[], float]) -> None:
        self._index = index
        self._clock = clock
        self._answers: OrderedDict[str, tuple[bool, float]] = OrderedDict()  # the longest ago first
        self._asked: dict[str, asyncio.Task[None]] = {}

    def heard(self, doc_id: str, text: str) -> None:
        """A generation for a document has said this so far."""
        if self._index is None or "(" not in text or not self._index.covers(doc_id):
            return
        for name in set(_CALLED.findall(text)) - self._asked.keys():
            answer = self._answers.get(name)
            if answer is None or self._clock() > answer[1] + REFRESH_S:
                self._asked[name] = asyncio.get_running_loop().create_task(self._ask(self._index, name))

    def defined(self, doc_id: str) -> Defined:
        """Is a name defined somewhere else, for a text in that document?"""
        if self._index is None or not self._index.covers(doc_id):
            return nobody
        return lambda name: self._answers.get(name, (True, 0.0))[0]

    async def _ask(self, index: Index, name: str) -> None:
        try:
            found = bool(await index.definitions_of(name, 1))
            self._answers.pop(name, None)
            self._answers[name] = found, self._clock()
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)
        except Exception as error:  # the index is closed or in trouble: nothing is known of the name
            log.debug("a name was not looked up: %s", type(error).__name__)
        finally:
            self._asked.pop(name, None)
