"""What follows a suggestion that is taken, generated at low priority while somebody looks at it.

Owns what is under way: at most one generation, of the document as if the suggestion had been accepted; if the line is complete
there, of the line that Enter begins. Whether something is shown nobody tells: it counts as shown when it was answered and
neither a request nor an edit that disagrees came within a moment. Its result goes where all results are (`results`); it ends
with the first key that disagrees, and its tokens are the background's (`allowance`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from context.plan import Fit, check
from context.syntax import SyntaxTree
from context.text import Edit, Text
from context.types import DocumentSnapshot, Plan
from inference.types import GenerationRequest, GenerationStats, Priority
from lsp_server.answers.enough import Wants
from lsp_server.answers.generation import Generation
from lsp_server.answers.offer import judge_of, offer, wants_line
from lsp_server.asking.trigger import LastEdit
from lsp_server.desk import Desk
from lsp_server.rules.confidence import n_wanted
from lsp_server.types import CompletionQuery, Item
from lsp_server.uris import is_on_disk
from lsp_server.warm.ahead import Ahead

SHOWN_S = 0.15
_OPENERS = (":", "{", "(", "[", "=>", "->")
_MOST_INDENT = 256  # bytes


class Prefetch:
    """made: requests of the last generations. note: what was done last, for people."""

    def __init__(self) -> None:
        self.generation: Generation | None = None
        self.made: deque[int] = deque(maxlen=64)
        self.note = ""
        self._item: Item | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def answered(
        self, snapshot: DocumentSnapshot, item: Item, shown: Generation, plan: Plan | None, ahead: Ahead, desk: Desk
    ) -> None:
        """An item was answered, from a generation that may go on. plan: the one in use. ahead: where a larger prompt may be on
        its way. Returns at once."""
        server = desk.config.server
        if not (server.prefetch and server.typed_through and server.result_cache_bytes):
            return
        if self._item is not None and _is_same(self._item, item, snapshot.text):
            return
        self.stop()
        self._item = item
        self._task = asyncio.get_running_loop().create_task(self._run(snapshot, item, shown, plan, ahead, desk))

    def changed(self, text: Text, edit: LastEdit | None) -> None:
        """text: after the edit. Nothing ends as long as it is on the way to what is prepared, or went on from there."""
        if self._item is None or edit is None:
            return
        start, new = self._item.start, self._item.text.encode()
        end = min(edit.end, start + len(new))
        if end < start or text.slice(text.floor(start), text.floor(end)) != new[: end - start]:
            self.stop()

    def stop(self) -> None:
        """What has ended stays where it is."""
        self._item = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self.generation is not None:
            self.generation.cancel()
            self.generation = None

    def has(self, wants: Wants) -> bool:
        """Has what runs said already what is wanted? (Who waits for the rest of it would wait behind others.)"""
        running = self.generation
        if running is None or wants.n > 1 or wants.offset < running.plan.anchor:
            return False
        if check(running.plan, wants.snapshot, wants.offset)[0] is Fit.REPLAN:
            return False
        first = running.remainder(wants.typed_since(running.plan.anchor))
        return first is not None and wants.single_line and bool(first.rest.partition("\n")[0].strip()) and "\n" in first.rest

    def take(self) -> Generation | None:
        """A request reads from the generation: it is its own now, and goes on."""
        taken, self.generation = self.generation, None
        return taken

    async def _run(
        self, snapshot: DocumentSnapshot, item: Item, shown: Generation, plan: Plan | None, ahead: Ahead, desk: Desk
    ) -> None:
        """With the prompt in use, since it may be taken at any moment, and once more if the full one comes to be resident: then
        what a small one said does not count any more."""
        await asyncio.sleep(SHOWN_S)
        await _ended(shown)
        await self._prepare(snapshot, item, plan, ahead.plan, desk)
        if ahead.is_busy:
            await ahead.quiet()
            await self._prepare(snapshot, item, plan, ahead.plan, desk)

    async def _prepare(
        self, snapshot: DocumentSnapshot, item: Item, plan: Plan | None, larger: Plan | None, desk: Desk
    ) -> None:
        """larger: whose prompt is resident, perhaps of another text by now, which is looked at."""
        if refusal := await desk.allowance.refusal(desk.config.server.background):
            self.note = f"not prefetched: {refusal}"
            return
        taken = Edit(item.start, item.end, item.text.encode())
        text = snapshot.text.edit(taken.start, taken.end, taken.new)
        tree = desk.trees.of(snapshot)
        tree = tree and tree.edited((taken,), text)
        enter = _enter(text, taken.start + len(taken.new))
        for edit, accepted in ((None, True), (enter, False)):
            cursor = enter.start
            if edit is not None:
                text, cursor = text.edit(edit.start, edit.end, edit.new), cursor + len(edit.new)
                tree = tree and tree.edited((edit,), text)
            document = DocumentSnapshot(snapshot.doc_id, snapshot.version, snapshot.language, text)
            wants = Wants(document, cursor, wants_line(document, cursor, accepted=accepted), 1, False)
            found = desk.learned.results.find(document, cursor, wants.has_enough)
            if found is None or (found.plan.limits != desk.planner.full and desk.planner.is_full(larger, document, cursor)):
                found = await self._generate(wants, plan, larger, desk, tree)
            if found is None or _is_offered(found, wants, tree):
                return

    async def _generate(
        self, wants: Wants, plan: Plan | None, larger: Plan | None, desk: Desk, tree: SyntaxTree | None
    ) -> Generation | None:
        """tree: of the document as it is wanted. None: the budget does not allow it."""
        n_max = desk.config.server.max_tokens
        left = desk.allowance.left(desk.client, desk.clock(), desk.planner.n_full) - n_max
        planned = await desk.planner.choose(wants.snapshot, wants.offset, plan, larger, desk.pool, n_allowed=max(left, 0))
        n_new = planned.n_new + n_max
        n_full = max(desk.planner.n_full, n_new)
        if desk.allowance.wait_s(desk.client, n_new, desk.clock(), n_full) > 0:
            self.note = "not prefetched: the background had its share of this minute"
            return None
        prompt, began = planned.prompt, desk.clock()
        request = GenerationRequest(
            desk.client.next_id(), prompt.tokens, prompt.heal, n_max, priority=Priority.PREFETCH,
            is_private=not is_on_disk(wants.snapshot.doc_id), n_logprobs=n_wanted(desk.client.model_name),
        )  # fmt: skip
        desk.allowance.ledger.begin(request.request_id, n_new)

        def ended(stats: GenerationStats) -> None:
            desk.allowance.ledger.end(request.request_id, desk.clock(), stats.n_rows)
            if not self._is_closed:
                desk.learned.results.keep(generation, began)

        stream = desk.client.submit(request)
        judge = judge_of(wants.snapshot, wants.offset, single_line=wants.single_line, tree=tree)
        heard = partial(desk.names.heard, wants.snapshot.doc_id)
        generation = Generation(request.request_id, planned.plan, prompt.typed, planned.n_new, stream, 1, ended, judge, heard)
        self.generation = generation
        self.made.append(request.request_id)
        self.note = f"prefetched what follows: {n_new} tokens at most"
        await _ended(generation)
        if self.generation is generation:
            self.generation = None
        return generation

    def close(self) -> None:
        """The document is closed: nothing of it is kept any more."""
        self._is_closed = True
        self.stop()


async def _ended(generation: Generation) -> None:
    changed = asyncio.Event()
    generation.readers.add(changed)
    try:
        while generation.is_running:
            changed.clear()
            await changed.wait()
    finally:
        generation.readers.discard(changed)


def _is_same(known: Item, new: Item, text: Text) -> bool:
    """Do both lead to the same text?"""
    first = min(known.start, new.start)
    if max(known.start, new.start) > len(text):
        return False
    return (
        text.slice(first, known.start) + known.text.encode() == text.slice(first, new.start) + new.text.encode()
    )  # what stands in front of the later one is the same: edits that disagree have ended the older


def _is_offered(generation: Generation, wants: Wants, tree: SyntaxTree | None) -> bool:
    """Would something of it be shown there? What only says what stands behind the cursor is nothing that follows."""
    first = generation.remainder(wants.typed_since(generation.plan.anchor))
    query = CompletionQuery(wants.snapshot, wants.offset, False, None, 0.0)
    return first is not None and offer(first, query, wants.snapshot, wants.offset, tree)[0] is not None


def _enter(text: Text, offset: int) -> Edit:
    """The line end that comes next, with what the editor puts behind it: as deep as the line, deeper behind what opens a
    block."""
    line = text.line_of(offset)
    start, end = text.line_start(line), text.line_end(line)
    head = text.slice(start, text.floor(min(offset, start + _MOST_INDENT)))
    indent = head[: len(head) - len(head.lstrip(b" \t"))]
    before = text.slice(text.floor(max(start, offset - 8)), offset).decode(errors="replace").rstrip()
    if before.endswith(_OPENERS):
        indent += b"\t" if b"\t" in indent else _unit(text, line)
    eol = b"\r\n" if end < len(text) and text.slice(end, text.floor(end + 2)) == b"\r\n" else b"\n"
    return Edit(offset, offset, eol + indent)


def _unit(text: Text, line: int) -> bytes:
    """One level of indentation, as the lines above have it."""
    for above in range(line, max(-1, line - 50), -1):
        start = text.line_start(above)
        head = text.slice(start, text.floor(min(text.line_end(above), start + 16)))
        if head.startswith(b"\t"):
            return b"\t"
        n = len(head) - len(head.lstrip(b" "))
        if head.strip() and n in (2, 4, 8):
            return b" " * n if n < 8 else b"    "
    return b"    "
