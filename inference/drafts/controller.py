"""How many tokens of a draft are tried in a step, if any: as many as lower the cost of each token that is gained.

Owns the judgement from the cost table, the running acceptance and the purse, and the account of each source. Refuses to make
or to check drafts. Decides anew before each step:

- What a longer draft gains is what its tokens are worth, by how often such tokens were right, less the rows' cost by the
  table. A token is worth what one costs with the best drafts there are now, at most a step.
- What gains only if all goes as it usually does is tried as far as the purse goes; what gains even by a cautious count, also
  for a while when the purse is overdrawn.
- A source that would gain nothing is off. What it would have said next is compared with what was chosen as far as that costs
  nothing, and one draft of it is tried after PAUSE of its chances, then after twice as many, up to a thousand, out of the
  purse.
"""

from __future__ import annotations

from dataclasses import dataclass

from inference.costs import CostTable
from inference.drafts.acceptance import Acceptance
from inference.drafts.draft import Draft
from inference.drafts.purse import Purse
from inference.types import DraftFigures

PAUSE = 48
_LONGEST_PAUSE = 1024
_EVEN = 1e-9
_BEGIN_STEPS = 2  # that may be lost before anything was saved


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


class Controller:
    """table: of the model that checks."""

    def __init__(self, table: CostTable) -> None:
        self._table = table
        self._purse = Purse(_BEGIN_STEPS * table.cost(1))
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

    def gain(self, draft: Draft, n_rows: int, n_own: int) -> float:
        """ms that are probably gained by trying the draft as far as that is best. What is negative loses.

        n_rows: of the step without it, n_own of these are the run's.
        """
        return self._best(draft, n_rows, n_own)[0]

    def decide(self, draft: Draft, n_rows: int, n_own: int) -> int:
        """How many of its tokens are tried in this step; 0: none."""
        account = self._of(draft.source)
        gain, n = self._best(draft, n_rows, n_own)
        if n and gain > _EVEN:
            if self._purse.allows(self._cautious(draft, n, n_rows, n_own), self._table.cost(1)):
                account.is_off = False
                return n
            return self._tried_small(draft, n_rows)
        account.n_passed += 1
        account.is_off = True
        if account.n_passed < account.pause:
            return 0
        n = self._tried_small(draft, n_rows)
        if n:
            account.n_passed, account.pause = 0, min(2 * account.pause, _LONGEST_PAUSE)
        return n

    def outlook(self, source: str, draft_ms: float, n_rows: int, most: int) -> tuple[float, float]:
        """Of a source that takes draft_ms for each token, before anything is drafted: ms gained by a draft of the best length,
        and by how many tokens it brings the run further than a step would."""
        share, held, n_right = self._of(source).acceptance.typical, 1.0, 0.0
        best = (0.0, 0.0)
        for n in range(1, most + 1):
            held *= share
            n_right += held
            gain = n_right * self._table.cost(1) - self._added(n, n_rows) - n * draft_ms
            best = max(best, (gain, n_right))
        return best

    def passed(self, source: str) -> bool:
        """Another chance of a source that would gain nothing goes by: is it time to try it again all the same?"""
        account = self._of(source)
        account.n_passed += 1
        account.is_off = True
        if account.n_passed < account.pause or self._purse.balance <= 0:
            return False
        account.n_passed, account.pause = 0, min(2 * account.pause, _LONGEST_PAUSE)
        return True

    def allows(self, ms: float) -> bool:
        """May so much be lost?"""
        return self._purse.balance >= ms

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
        return self._accounts.setdefault(source, _Account(Acceptance()))

    def _step_worth(self, n_rows: int, n_own: int) -> float:
        """What a token of a run is worth: what it adds to a step, alone or beside others."""
        others = n_rows - n_own
        return self._table.cost(1) if not others else max(0.0, self._table.cost(others + 1) - self._table.cost(others))

    def _added(self, n: int, n_rows: int) -> float:
        return self._table.cost(n_rows + n) - self._table.cost(n_rows)

    def _lengths(self, draft: Draft, n_rows: int) -> list[int]:
        """Lengths that may be best: those up to an entry of the table, and the whole."""
        longest = len(draft.tokens)
        entries = [n - n_rows for n, _ in self._table.rows]
        lengths = {n for n in entries if 0 < n < longest} if entries else set(range(1, longest))
        return sorted({*lengths, longest})

    def _best(self, draft: Draft, n_rows: int, n_own: int) -> tuple[float, int]:
        """ms gained, and by which length. Whether anything is gained is a question of steps saved; which length is best, of
        what a token costs otherwise, which is less than a step where drafts are right."""
        expected = self._of(draft.source).acceptance.expected(draft.grades)
        step, lengths = self._step_worth(n_rows, n_own), self._lengths(draft, n_rows)
        token = min(1.0, min(self._table.cost(1 + n) / (1 + expected[n - 1]) for n in lengths) / self._table.cost(1)) * step
        n = max(lengths, key=lambda n: token * expected[n - 1] - self._added(n, n_rows))
        return step * expected[n - 1] - self._added(n, n_rows), n

    def _cautious(self, draft: Draft, n: int, n_rows: int, n_own: int) -> float:
        """ms gained by its first n tokens if it goes worse than usual."""
        expected = self._of(draft.source).acceptance.expected(draft.grades[:n], cautious=True)
        return self._step_worth(n_rows, n_own) * expected[-1] - self._added(n, n_rows)

    def _tried_small(self, draft: Draft, n_rows: int) -> int:
        """The shortest draft, if all of its cost may be lost; with all its tokens that cost the same."""
        n = self._lengths(draft, n_rows)[0]
        return n if self.allows(self._added(n, n_rows) + draft.ms) else 0
