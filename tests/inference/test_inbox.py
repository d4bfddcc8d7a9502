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
        ((1, Priority.BACKGROUND), (2, OTHER, Priority.PREFETCH), (), False),
        ((1, Priority.BACKGROUND), (2, OTHER, Priority.INVOKED), (), True),
        ((1, Priority.PREFETCH), (2, OTHER, Priority.INVOKED), (), True),
        ((1, Priority.INVOKED), (2, OTHER, Priority.TYPING), (), True),
        ((1, Priority.INVOKED), (2, OTHER, Priority.INVOKED), (), False),
        ((1, Priority.TYPING), (2, OTHER, Priority.INVOKED), (), False),
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


@pytest.mark.parametrize("late", [True, False], ids=["between take and step", "during the step"])
def test_a_step_that_ends_soon_is_waited_for_but_not_if_it_does_not(late: bool) -> None:
    for left_ms, want in ((30.1, True), (29.9, False), (1.0, False)):
        now = 5.0
        inbox = Inbox(lambda: now)  # noqa: B023
        key = run(2, OTHER)
        if late:
            inbox.put(key)
            inbox.begin_step([(run(1, priority=Priority.BACKGROUND), 32)], left_ms, 30.0)
        else:
            inbox.begin_step([(run(1, priority=Priority.BACKGROUND), 32)], left_ms + 200.0, 30.0)
            now += 0.2
            inbox.put(key)
        assert inbox.is_aborted() is want
        now += 0.0299
        assert inbox.is_aborted() is want
        now += 0.0002
        assert inbox.is_aborted(), "it was to end by now"
        inbox.end_step()
        inbox.take()
        assert not inbox.is_aborted()


def test_the_least_step_is_not_ended_for_somebody_else_but_for_nobody() -> None:
    now = 0.0
    inbox = Inbox(lambda: now)
    lower = run(1, priority=Priority.BACKGROUND)
    inbox.begin_step([(lower, 1)], 500.0, 30.0, False)
    inbox.put(run(2, OTHER))
    now += 9.0
    assert not inbox.is_aborted()
    inbox.cancel(1)
    assert inbox.is_aborted()


def test_a_step_that_serves_one_in_front_too_goes_on() -> None:
    inbox = Inbox()
    inbox.begin_step([(run(1, priority=Priority.BACKGROUND), 1), (run(2, priority=Priority.INVOKED), 1)])
    inbox.put(run(3, OTHER, Priority.INVOKED))
    assert not inbox.is_aborted()
    inbox.put(run(4, OTHER, Priority.TYPING))
    assert inbox.is_aborted()


def test_what_has_arrived_is_counted() -> None:
    inbox = Inbox()
    for i, priority in enumerate(Priority):
        inbox.put(run(i, priority=priority))
    assert inbox.priorities() == list(Priority)
    inbox.take()
    assert inbox.priorities() == []
