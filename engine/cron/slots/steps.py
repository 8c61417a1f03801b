"""The steps of the slot protocol. Each is one call to one place that either happens whole or not at all.

The protocol is written as generators that yield these and are sent their answers. What runs them for real calls the
store, the database and the queue; the simulator calls models of them, and may let anything happen between two steps.
Every step may raise ``Unavailable`` (nothing is known to have changed) or ``OutcomeUnknown`` (it may have happened).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from engine.cron.slots.job import AfterFailure, AfterLoss, JobPolicy
from engine.cron.slots.parts import WHOLE, node_of
from engine.cron.slots.planning import Decision

Answer = TypeVar("Answer")
#: A part of the protocol: yields steps, is sent their answers, returns its own.
Steps = Generator["Step", Any, Answer]


class RunState(StrEnum):
    """Where a run stands."""

    #: Its slot is claimed, and no worker has begun.
    CLAIMED = "claimed"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    #: It never ran; its reason says why.
    SKIPPED = "skipped"
    #: Its worker lost its lease while it ran.
    LOST = "lost lease"
    #: Claimed, and nobody began within the catch-up window.
    ABANDONED = "abandoned"
    #: Somebody, or a newer run of the job, had it stopped; its reason says who.
    CANCELLED = "cancelled"


#: Something may still become of these; the others are over.
OPEN = (RunState.CLAIMED, RunState.RUNNING)
#: Of the parts of a slot the first of these stands for it: one that never ran is worse than one that did all it should.
WORST_FIRST = (
    RunState.FAILED,
    RunState.LOST,
    RunState.ABANDONED,
    RunState.RUNNING,
    RunState.CLAIMED,
    RunState.CANCELLED,
    RunState.SKIPPED,
    RunState.DONE,
)


class Cursor(NamedTuple):
    """How far a job's slots are decided; from the database."""

    job: str
    version: int
    at: int


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the database has it."""

    id: int
    job: str
    slot: int
    state: RunState
    #: Of the last worker that began; 0 before.
    epoch: int
    attempt: int
    #: When it was claimed, or begun, or last renewed: seconds of the database's clock.
    changed_s: float
    #: Whether it was told to wait until another run of the job has ended.
    waits: bool = False
    #: The database's time before which it is not to be begun; 0: at once.
    not_before_s: float = field(default=0.0, kw_only=True)
    #: How the attempt before ended; ``None`` at the first.
    last_end: RunState | None = field(default=None, kw_only=True)
    #: Whether somebody triggered it.
    manual: bool = field(default=False, kw_only=True)
    #: When it was made, by the database's clock, where no planned instant made it; its slot is that second. 0: one did.
    made_s: float = field(default=0.0, kw_only=True)
    #: Which part of its slot it does, see :mod:`~engine.cron.slots.parts`.
    part: str = field(default=WHOLE, kw_only=True)

    @property
    def due_s(self) -> float:
        """When it was to begin: what is told to begin later than its slot is not late until then."""
        return max(self.slot, self.made_s, self.not_before_s)


class Step:
    """A call to one place."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ReadCursors(Step):
    """Database: the cursors of these jobs → ``list[Cursor]``, without those of jobs that are gone."""

    jobs: tuple[str, ...]


class SlotKey(NamedTuple):
    """What a marker follows from: it is the same on every node."""

    job: str
    version: int
    at: int


@dataclass(frozen=True, slots=True)
class ClaimSlots(Step):
    """Store: set the marker of each slot unless another node's is there → ``SlotClaims``; a part of them may fail.

    The store judges by its own clock whether a slot has come, or comes within ``ahead_s``, so that a node whose clock
    is ahead claims nothing before that.
    """

    slots: tuple[SlotKey, ...]
    node: str
    #: How long others leave a slot to this node, in seconds.
    ttl_s: float
    ahead_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SlotClaims:
    """The answer to :class:`ClaimSlots`."""

    won: frozenset[SlotKey]
    #: The store's clock, in seconds since the epoch.
    now_s: float


@dataclass(frozen=True, slots=True)
class Opening:
    """What is decided of one job's slots. ``cursor``: where its slots were decided up to until now."""

    cursor: Cursor
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True)
class OpenRuns(Step):
    """Database, one transaction: insert a row for each decision, move the cursors → ``Opened``.

    Nothing happens for an opening whose cursor is not as expected. A slot that has a row already keeps it, and the
    cursor moves on: it was decided.
    """

    openings: tuple[Opening, ...]
    node: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The answer to :class:`OpenRuns`."""

    #: The cursors that were moved, as they are now.
    cursors: tuple[Cursor, ...] = ()
    #: The rows that are to run.
    rows: tuple[RunRow, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkingNodes(Step):
    """Store: which nodes have workers that live → their names, ``tuple[str, ...]``, in order."""


@dataclass(frozen=True, slots=True)
class Offer(Step):
    """Queue: give runs to the workers. Each may come late, twice, or never."""

    runs: tuple[int, ...]
    #: Of those that one node alone may do, which.
    only_on: Mapping[int, str] = field(default_factory=dict)


def offer_of(rows: Iterable[RunRow]) -> Offer:
    """Of these rows, each to whom it is for."""
    there = list(rows)
    return Offer(tuple(row.id for row in there), {row.id: node for row in there if (node := node_of(row.part))})


@dataclass(frozen=True, slots=True)
class Queued(Step):
    """Queue: how many entries wait for any worker, which is called ``""``, and for those of these nodes alone →
    ``Mapping[str, int]``. What a worker has in hand already is not among them.
    """

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadRun(Step):
    """Database: one run → ``RunRow | None``."""

    run: int


@dataclass(frozen=True, slots=True)
class Acquire(Step):
    """Store: take the lease of a run unless another holds it → its epoch, or 0.

    The epoch is greater than every one given before and than ``floor``, which the database remembers for a store that
    has forgotten.
    """

    run: int
    owner: str
    ttl_s: float
    floor: int


@dataclass(frozen=True, slots=True)
class Begin(Step):
    """Database: claimed → running under ``epoch``, as far as other runs let it → ``Beginning``.

    These are those of the job, and of jobs that share a tag with a limit: where that is reached, it waits. One that may
    neither begin nor wait is skipped with a reason; a further attempt ends as the one before. Under ``Overlap.CANCEL``
    those that run are asked to stop. Before its time it waits. What is for one node is refused to the owners on others,
    and stays as it is.
    """

    run: int
    epoch: int
    owner: str
    policy: JobPolicy


class Beginning(StrEnum):
    """The answer to :class:`Begin`."""

    BEGUN = "begun"
    #: It stays claimed, and is offered again when its turn has come.
    WAITS = "waits"
    #: It is over, or another's.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Renew(Step):
    """Store: lengthen the lease of an owner → ``False`` where it is not the owner's any more."""

    run: int
    owner: str
    epoch: int
    ttl_s: float


@dataclass(frozen=True, slots=True)
class End(Step):
    """Database: running under ``epoch`` → ``state``, and no other → ``Ending``, the same when it is asked twice.

    By the policy a run that failed or was lost is claimed anew instead, as its next attempt. One that was asked to stop
    never is: where it failed, it is cancelled for the reason of who asked.
    """

    run: int
    epoch: int
    state: RunState
    policy: JobPolicy
    reason: str = ""
    #: Whether another attempt might help.
    again: bool = field(default=True, kw_only=True)

    def again_s(self, attempt: int) -> float | None:
        """How long after this end of ``attempt`` the next one comes; ``None`` where none does."""
        policy = self.policy
        if not self.again or attempt >= policy.attempts:
            return None
        if self.state is RunState.FAILED and policy.after_failure is AfterFailure.RETRY:
            return policy.pause_s(attempt)
        return 0.0 if self.state is RunState.LOST and policy.after_loss is AfterLoss.RETRY else None


@dataclass(frozen=True, slots=True)
class Ending:
    """The answer to :class:`End`."""

    #: What it is by that, such as claimed when it is tried again; ``None`` where that was not the asker's to say.
    state: RunState | None = None
    #: Runs that are to be offered now: the one that has waited longest for another, itself, and those that follow it.
    next: tuple[int, ...] = ()
    #: Of those that one node alone may do, which.
    only_on: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CancelledRuns(Step):
    """Database: which of these runs somebody asked to stop → ``set[int]``."""

    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Release(Step):
    """Store: give the lease up, if it is the owner's."""

    run: int
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class ReadOpen(Step):
    """Database: the runs that are claimed or running, with the database's time → ``tuple[list[RunRow], float]``."""


@dataclass(frozen=True, slots=True)
class LeasesHeld(Step):
    """Store: which of these runs somebody has a lease of → ``set[int]``."""

    runs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GiveUp(Step):
    """Database: ``seen`` → ``state``, unless it has changed since → whether it was."""

    seen: RunRow
    state: RunState
    reason: str
    #: Whether it is claimed anew in the same breath, as its next attempt: unless it was asked to stop.
    again: bool = False


@dataclass(frozen=True, slots=True)
class Monotonic(Step):
    """This process: its monotonic clock, in seconds."""


@dataclass(frozen=True, slots=True)
class Wait(Step):
    """This process: until its monotonic clock shows ``until``."""

    until: float
