"""A worker's part: take the lease, begin, keep the lease while the work goes on, and say how it ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from engine.core.errors import Unavailable
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.steps import (
    Acquire,
    Begin,
    Beginning,
    End,
    Ending,
    Monotonic,
    Offer,
    ReadRun,
    Release,
    Renew,
    RunRow,
    RunState,
    Steps,
    Wait,
)

#: A lease is renewed when half of it is over; what does not answer then is asked again this many times in the half of
#: what is left, and the other half is for stopping the work.
RENEW_AT, LOST_AT, TRIES = 0.5, 0.75, 5


@dataclass(frozen=True, slots=True)
class Held:
    """A run that this worker has begun."""

    row: RunRow
    owner: str
    epoch: int
    #: That it was begun by.
    policy: JobPolicy
    #: The monotonic clock when the lease was asked for: the store counts from later on.
    sent: float

    @property
    def lease_s(self) -> float:
        """How long it has the run without renewing."""
        return self.policy.lease_s


def begin(run: int, owner: str, policy: Callable[[str], JobPolicy]) -> Steps[Held | None]:
    """Take a run that was offered; ``None`` where it is not to be begun (again), or not by us.

    Raises ``Unavailable`` when store or database do not answer: it has not begun then, and is offered again. Where the
    database took so long that the lease is not to be relied on, no work begins: the sweeper finds the run lost.
    """
    row: RunRow | None = yield ReadRun(run)
    if row is None or row.state is not RunState.CLAIMED:
        return None
    by = policy(row.job)
    sent: float = yield Monotonic()
    epoch: int = yield Acquire(run, owner, by.lease_s, row.epoch)
    if not epoch:
        return None
    beginning: Beginning = yield Begin(run, epoch, owner, by)
    if beginning is not Beginning.BEGUN:
        yield Release(run, owner, epoch)
        return None
    held = Held(row, owner, epoch, by, sent)
    begun: float = yield Monotonic()
    return held if begun < sent + held.lease_s * RENEW_AT else (yield from _begun_late(held, begun))


def _begun_late(held: Held, now: float) -> Steps[Held | None]:
    """With a whole lease again; ``None`` where it cannot be had."""
    with suppress(Unavailable):
        kept: bool = yield Renew(held.row.id, held.owner, held.epoch, held.lease_s)
        if kept:
            return replace(held, sent=now)
        yield Release(held.row.id, held.owner, held.epoch)
    return None


def keep(held: Held) -> Steps[None]:
    """Renew the lease until it is lost, and then return: the work is to be stopped. Ended from outside before that."""
    sent = held.sent
    while True:
        yield Wait(sent + held.lease_s * RENEW_AT)
        renewed = yield from _renew(held, sent)
        if renewed is None:
            return
        sent = renewed


def _renew(held: Held, sent: float) -> Steps[float | None]:
    pause_s, lost_at = held.lease_s * (LOST_AT - RENEW_AT) / TRIES, sent + held.lease_s * LOST_AT
    while True:
        now: float = yield Monotonic()
        if now >= lost_at:
            return None
        try:
            kept: bool = yield Renew(held.row.id, held.owner, held.epoch, held.lease_s)
        except Unavailable:
            yield Wait(min(now + pause_s, lost_at))
            continue
        return now if kept else None


def end(held: Held, state: RunState, reason: str = "", *, again: bool = True) -> Steps[RunState | None]:
    """Say how it ended, and offer who waited for that; what it is then, ``None`` where that is not ours to say.

    It is claimed when it is tried again, which ``again`` may forbid. Raises ``Unavailable``: it may be repeated.
    """
    ending: Ending = yield End(held.row.id, held.epoch, state, held.policy, reason, again=again)
    # A lease that is not given up runs out.
    with suppress(Unavailable):
        yield Release(held.row.id, held.owner, held.epoch)
    if ending.next:
        # What is not offered here is found by the sweeper.
        with suppress(Unavailable):
            yield Offer(ending.next, ending.only_on)
    return ending.state
