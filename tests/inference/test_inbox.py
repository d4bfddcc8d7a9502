"""When the step under way is aborted: what arrives, is cancelled, or both, before and while it runs."""

from __future__ import annotations

import pytest

from inference.inbox import Inbox
from inference.run import Run
from inference.types import GenerationRequest, Priority

PROMPT = tuple(range(40))
OTHER = (99, *PROMPT)


def run(request_id: int, tokens: tuple[int, ...] = PROMPT, priority: Priority = Priority.TYPING) -> Run:
    return Run(GenerationRequest(request_id, tokens, priority=priority), lambda event: None, 0.0)


@pytest.mark.parametrize("late", [True, False], ids=["between take and step", "during the step"])
@pytest.mark.parametrize(
    ("stepping", "arriving", "cancelled", "want"),
    [
        ((1, Priority.BACKGROUND), None, (), False),
        ((1, Priority.BACKGROUND), (2, OTHER, Priority.TYPING), (), True),
        ((1, Priority.BACKGROUND), (2, (*PROMPT, 7), Priority.TYPING), (), False),  # it uses the rows
        ((1, Priority.BACKGROUND), (2, OTHER, Priority.BACKGROUND), (), False),
        ((1, Priority.TYPING), (2, OTHER, Priority.TYPING), (), False),
        ((1, Priority.TYPING), None, (1,), True),
        ((1, Priority.TYPING), None, (5,), False),
        ((1, Priority.TYPING), (2, (*PROMPT, 7), Priority.TYPING), (1,), False),  # the successor uses the rows
        ((1, Priority.TYPING), (2, OTHER, Priority.TYPING), (1,), True),
    ],
)
def test_abort(
    stepping: tuple[int, Priority],
    arriving: tuple[int, tuple[int, ...], Priority] | None,
    cancelled: tuple[int, ...],
    want: bool,
    late: bool,
) -> None:
    inbox = Inbox()
    current = run(stepping[0], priority=stepping[1])
    assert inbox.put(current)
    assert inbox.take() == ([current], set())
    if not late:
        inbox.begin_step([(current, 32)])
        assert not inbox.is_aborted()
    if arriving is not None:
        inbox.put(run(*arriving))
    for request_id in cancelled:
        inbox.cancel(request_id)
    if late:
        inbox.begin_step([(current, 32)])
    assert inbox.is_aborted() is want
    inbox.end_step()
    inbox.take()
    assert not inbox.is_aborted()


def test_a_closed_inbox_takes_nothing_and_aborts() -> None:
    inbox = Inbox()
    inbox.close()
    assert not inbox.put(run(1)) and inbox.is_aborted() and inbox.is_closed
    inbox.wait()  # does not sleep
    inbox.take()
    assert inbox.is_aborted()
