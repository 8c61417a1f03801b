"""The store of a rehearsal: the real keys by the real scripts, which run out by the clock of the play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import redis

from engine.core.clock import Clock
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, Release, Renew, SlotClaims, SlotKey
from engine.cron.slots.store import SlotStore

#: How long the store itself keeps a lease, in seconds of ours: longer than a play takes, and not for ever where one
#: dies.
KEPT_S = 600.0


@dataclass(frozen=True, slots=True)
class _Until:
    owner: str
    epoch: int
    at: float


class RehearsedStore(SlotStore):
    """Not thread-safe; one play has one. Its ``clock`` is the store's as far as anybody is told."""

    def __init__(self, client: redis.Redis, prefix: str, clock: Clock) -> None:
        super().__init__(client, prefix)
        self._clock = clock
        self._marked: dict[SlotKey, float] = {}
        self._leases: dict[int, _Until] = {}

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def claim(self, step: ClaimSlots) -> SlotClaims:
        """The store itself refuses what is ahead of its own clock: a span that is not over cannot be played."""
        now_s = self.time()
        come = [slot for slot in step.slots if slot.at <= now_s]
        fresh = [slot for slot in come if self._marked.get(slot, -inf) > now_s]
        won = self._claimed(step, fresh, KEPT_S)
        # The marker of one that has run out, or is of an earlier play, holds nobody up.
        won |= self._claimed(step, [slot for slot in come if slot not in fresh], 0.0)
        self._marked.update(dict.fromkeys(won, now_s + step.ttl_s))
        return SlotClaims(won, now_s)

    def acquire(self, step: Acquire) -> int:
        self._run_out()
        epoch = super().acquire(replace(step, ttl_s=KEPT_S))
        if epoch:
            self._leases[step.run] = _Until(step.owner, epoch, self.time() + step.ttl_s)
        return epoch

    def renew(self, step: Renew) -> bool:
        self._run_out()
        kept = super().renew(replace(step, ttl_s=KEPT_S))
        if kept:
            self._leases[step.run] = _Until(step.owner, step.epoch, self.time() + step.ttl_s)
        return kept

    def release(self, step: Release) -> None:
        super().release(step)
        until = self._leases.get(step.run)
        if until is not None and (until.owner, until.epoch) == (step.owner, step.epoch):
            del self._leases[step.run]

    def leases_held(self, step: LeasesHeld) -> set[int]:
        self._run_out()
        return super().leases_held(step)

    def _claimed(self, step: ClaimSlots, slots: Sequence[SlotKey], ttl_s: float) -> frozenset[SlotKey]:
        return super().claim(replace(step, slots=tuple(slots), ttl_s=ttl_s)).won if slots else frozenset()

    def _run_out(self) -> None:
        now_s = self.time()
        for run, epoch in [(run, until.epoch) for run, until in self._leases.items() if until.at <= now_s]:
            self.take_away(run, epoch)
            del self._leases[run]
