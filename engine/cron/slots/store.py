"""The store's part of the slot protocol, in Redis: markers of slots, leases of runs.

A fast path and no judge: whatever it forgets, the database still has one row for each slot and one epoch for each run.
Keys, all under the prefix; those of one job or run share a hash tag, so that a cluster keeps them together:

==================================  ================================================  =================
``{cron:JOB}:slot:VERSION:SLOT``    ``NODE CLAIMED_MS``                               a day
``{run:ID}:lease``                  ``OWNER EPOCH``                                   the lease
``{run:ID}:epoch``                  the last epoch issued                             a week
==================================  ================================================  =================
"""

from __future__ import annotations

from pathlib import Path

import redis

from engine.core.scripts import UNREACHABLE, Arg, ScriptFolder, away
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, Release, Renew, SlotClaims, SlotKey

_LUA = Path(__file__).parent / "lua"
#: How long a marker is kept for whoever looks at it, in milliseconds.
MARKER_MS = 86_400_000
#: How long the epoch of a run is kept: no worker goes on for so long without the database.
EPOCH_MS = 7 * 86_400_000


class SlotStore:
    """Answers the steps that go to the store. Thread-safe. Every method raises ``Unavailable``."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = ScriptFolder(client, _LUA)

    def time(self) -> float:
        """The store's clock, in seconds since the epoch."""
        try:
            seconds, micros = self._client.time()
        except UNREACHABLE as error:
            raise away(error) from error
        return float(seconds) + micros / 1_000_000

    def claim(self, step: ClaimSlots) -> SlotClaims:
        """In one round trip. Of those that were set when it raises, others leave alone for ``ttl_s``."""
        calls = [
            ([f"{self._prefix}:{{cron:{slot.job}}}:slot:{slot.version}:{slot.at}"], self._claim(step, slot))
            for slot in step.slots
        ]
        answers = self._scripts.call_each("claim", calls)
        won = frozenset(slot for slot, (is_won, _) in zip(step.slots, answers, strict=True) if is_won)
        return SlotClaims(won, max((now_ms for _, now_ms in answers), default=0) / 1000)

    @staticmethod
    def _claim(step: ClaimSlots, slot: SlotKey) -> list[Arg]:
        return [step.node, slot.at * 1000, round(step.ttl_s * 1000), MARKER_MS]

    def acquire(self, step: Acquire) -> int:
        keys = [self._lease(step.run), f"{self._prefix}:{{run:{step.run}}}:epoch"]
        arguments: list[Arg] = [step.owner, round(step.ttl_s * 1000), step.floor, EPOCH_MS]
        return int(self._scripts.call("acquire", keys, arguments))

    def renew(self, step: Renew) -> bool:
        arguments: list[Arg] = [step.owner, step.epoch, round(step.ttl_s * 1000)]
        return bool(self._scripts.call("renew", [self._lease(step.run)], arguments))

    def release(self, step: Release) -> None:
        self._scripts.call("release", [self._lease(step.run)], [step.owner, step.epoch])

    def leases_held(self, step: LeasesHeld) -> set[int]:
        pipeline = self._client.pipeline(transaction=False)
        for run in step.runs:
            pipeline.exists(self._lease(run))
        try:
            return {run for run, held in zip(step.runs, pipeline.execute(), strict=True) if held}
        except UNREACHABLE as error:
            raise away(error) from error

    def _lease(self, run: int) -> str:
        return f"{self._prefix}:{{run:{run}}}:lease"
