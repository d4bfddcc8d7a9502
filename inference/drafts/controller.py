"""How many tokens of a draft are tried in a step, if any: as many as lower the cost of each token that is gained.

Owns the judgement from the cost table, the running acceptance and the purse, and the account of each source. Refuses to make
or to check drafts. Decides anew before each step:

- What a longer draft gains is what its tokens are worth, by how often such tokens were right, less the rows' cost by the
  table. A token is worth what one costs with the best drafts there are now, at most a step.
- No draft is tried that may lose more than the purse holds, should none of it be right: then a shorter one is, or none.
- A source that would gain nothing is off. What it would have said next is compared with what was chosen, which costs nothing
  where the draft was found; one that is computed is tried after PAUSE of its chances, then after twice as many, up to a
  thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from inference.costs import CostTable
from inference.drafts.acceptance import Acceptance
from inference.drafts.draft import Draft
from inference.drafts.purse import Purse
from inference.types import DraftFigures

PAUSE = 48
_LONGEST_PAUSE = 1024
_EVEN = 1e-9


@dataclass(slots=True)
class _Account:
    acceptance: Acceptance
    n_drafted: int = 0
    n_accepted: int = 0
    n_steps: int = 0
    saved_ms: float = 0.0
    pause: int = PAUSE
    n_passed: int = 0  # chances since it was last tried without hope
    is_off: bool = False


class Judgement(NamedTuple):
    """gain: ms that are probably gained by trying the draft as far as that is best; what is negative loses. n: how many of its
    tokens may be tried; 0: none, it gains nothing or may lose too much."""

    gain: float
    n: int


class Controller:
    """table: of the model that checks."""

    def __init__(self, table: CostTable) -> None:
        self._table = table
        self._purse = Purse()
        self._accounts: dict[str, _Account] = {}

    @property
    def figures(self) -> tuple[DraftFigures, ...]:
        """Of each source that was ever asked. Cheap, and for any thread."""
        return tuple(
            DraftFigures(name, a.n_drafted, a.n_accepted, a.n_steps, a.saved_ms, a.is_off)
            for name, a in list(self._accounts.items())
        )

    def share(self, source: str, grade: int) -> float:
        """How often a source's tokens of this grade are right."""
        return self._of(source).acceptance.share(grade)

    def typical(self, source: str) -> float:
        """How often a source's tokens are right, whatever their grade."""
        return self._of(source).acceptance.typical

    def judge(self, draft: Draft, n_rows: int, n_own: int) -> Judgement:
        """n_rows: of the step without it, n_own of these are the run's.

        Whether anything is gained is a question of steps saved; which length is best, of what a token costs otherwise, which is
        less than a step where drafts are right.
        """
        acceptance, table = self._of(draft.source).acceptance, self._table
        expected, lengths = acceptance.expected(draft.grades), self._lengths(draft, n_rows)
        added = {n: self._added(n, n_rows) for n in lengths}
        step = self._step_worth(n_rows, n_own)
        token = min(1.0, min(table.cost(1 + n) / (1 + expected[n - 1]) for n in lengths) / table.cost(1)) * step
        best = max(lengths, key=lambda n: token * expected[n - 1] - added[n])
        gain = step * expected[best - 1] - added[best]
        if gain <= _EVEN:
            return Judgement(gain, 0)
        sure = acceptance.expected(draft.grades, cautious=True)
        gaining = [n for n in lengths if n <= best and step * sure[n - 1] - added[n] > _EVEN]
        return Judgement(gain, max((n for n in gaining if self.allows(added[n] + draft.ms)), default=0))

    def decide(self, draft: Draft, judged: Judgement, n_rows: int) -> int:
        """How many of its tokens are tried in this step; 0: none."""
        self._of(draft.source).is_off = judged.gain <= _EVEN
        if judged.n:
            self.stakes(draft.cut(judged.n), n_rows)
        return judged.n

    def outlook(self, source: str, draft_ms: float, n_rows: int, most: int) -> tuple[float, float, float]:
        """Of a source that takes draft_ms for each token, before anything is drafted: ms gained by a draft of the best length,
        by how many tokens it brings the run further than a step would, and what a token costs with the best drafts: at most a
        step."""
        share, held, n_right = self._of(source).acceptance.typical, 1.0, 0.0
        gain, n_further, step = 0.0, 0.0, self._table.cost(1)
        token = step
        for n in range(1, most + 1):
            held *= share
            n_right += held
            cost = self._added(n, n_rows) + n * draft_ms
            token = min(token, (step + cost) / (1 + n_right))
            gain, n_further = max((gain, n_further), (n_right * step - cost, n_right))
        return gain, n_further, token

    def passed(self, source: str) -> bool:
        """Another chance of a source that would gain nothing goes by: is it time to try it again all the same?"""
        account = self._of(source)
        account.n_passed += 1
        account.is_off = True
        if account.n_passed < account.pause:
            return False
        account.n_passed, account.pause = 0, min(2 * account.pause, _LONGEST_PAUSE)
        return True

    def allows(self, ms: float) -> bool:
        """May so much be lost?"""
        return self._purse.allows(ms)

    def begin_step(self) -> None:
        """Nothing is at stake yet."""
        self._purse.begin_step()

    def stakes(self, draft: Draft, n_rows: int) -> None:
        """The draft rides in the step, beside so many rows: all of its cost may be lost."""
        self._purse.reserve(self._added(len(draft.tokens), n_rows) + draft.ms)

    def stepped(self, n_rows: int) -> None:
        """A step was made that had so many rows without drafts, and brought somebody a token."""
        self._purse.stepped(self._table.cost(n_rows))

    def learn(self, draft: Draft, n_right: int, n_rows: int, n_own: int) -> None:
        """A draft was checked: so many of its tokens stand. n_rows: of the step without it."""
        account = self._of(draft.source)
        account.acceptance.learn(draft.grades, n_right)
        value = self._step_worth(n_rows, n_own)
        saved = n_right * value - self._added(len(draft.tokens), n_rows) - draft.ms
        account.n_drafted += len(draft.tokens)
        account.n_accepted += n_right
        account.n_steps += 1
        account.saved_ms += saved
        if saved > 0:
            account.pause = PAUSE
        self._purse.settled(saved, self._table.cost(1))

    def watched(self, source: str, grade: int, *, is_right: bool) -> None:
        """What it would have drafted next was compared with what was chosen, which cost nothing."""
        self._of(source).acceptance.learn((grade,), int(is_right))

    def lost(self, source: str, ms: float) -> None:
        """So much was spent on a draft that came to nothing."""
        self._of(source).saved_ms -= ms
        self._purse.settled(-ms, self._table.cost(1))

    def _of(self, source: str) -> _Account:
        account = self._accounts.get(source)
        if account is None:
            account = self._accounts[source] = _Account(Acceptance())
        return account

    def _step_worth(self, n_rows: int, n_own: int) -> float:
        """What a token of a run is worth: what it adds to a step, alone or beside others."""
        others = n_rows - n_own
        return self._table.cost(1) if not others else max(0.0, self._table.cost(others + 1) - self._table.cost(others))

    def _added(self, n: int, n_rows: int) -> float:
        return self._table.cost(n_rows + n) - self._table.cost(n_rows)

    def _lengths(self, draft: Draft, n_rows: int) -> list[int]:
        """Lengths that may be best: those up to an entry of the table, and the whole."""
        longest = len(draft.tokens)
        entries = [n - n_rows for n in self._table.counts]
        lengths = {n for n in entries if 0 < n < longest} if entries else set(range(1, longest))
        return sorted({*lengths, longest})
