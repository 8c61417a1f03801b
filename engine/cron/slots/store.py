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

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib.resources import files

import redis

from engine.core.scripts import Arg, ScriptFolder
from engine.core.store.answered import answered
from engine.core.store.cluster_client import ClusterClient
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, Release, Renew, SlotClaims, SlotKey

_LUA = files("engine.cron.slots") / "lua"
#: How long a marker is kept for whoever looks at it, in milliseconds.
MARKER_MS = 86_400_000
#: How long the epoch of a run is kept: no worker goes on for so long without the database.
EPOCH_MS = 7 * 86_400_000
#: The store must answer sooner than a lease runs out, and slots of others wait for it no longer. In seconds.
STORE_TIMEOUT_S = 2.0
#: Slots that one call of the script claims: it holds the store up for less than half a millisecond.
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as it stands in the store."""

    owner: str
    epoch: int
    #: Until it runs out, in seconds.
    left_s: float


@dataclass(frozen=True, slots=True)
class SeenMarker:
    """The marker of a slot as it stands in the store."""

    node: str
    claimed_ms: int
    #: Until it is forgotten, in seconds.
    left_s: float


class TakenAway(IntEnum):
    """What became of a lease that somebody wanted to take away."""

    #: The run has another one by now, which was left alone.
    ANOTHERS = -1
    #: Nobody has one.
    FREE = 0
    TAKEN = 1


class SlotStore:
    """Answers the steps that go to the store. Thread-safe. Every method raises ``Unavailable``."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = ScriptFolder(client, _LUA)
        # The jobs of a cluster lie on many servers, and a script runs on one.
        self._at_once = 1 if isinstance(client, ClusterClient) else AT_ONCE

    def time(self) -> float:
        """The store's clock, in seconds since the epoch."""
        with answered():
            seconds, micros = self._client.time()
        return float(seconds) + micros / 1_000_000

    def claim(self, step: ClaimSlots) -> SlotClaims:
        """In one round trip. Of those that were set when it raises, others leave alone for ``ttl_s``."""
        parts = [step.slots[start : start + self._at_once] for start in range(0, len(step.slots), self._at_once)]
        answers = self._scripts.call_each("claim", [(self._markers(part), _claim(step, part)) for part in parts])
        won: set[SlotKey] = set()
        now_ms = 0
        for part, (at_ms, *claimed) in zip(parts, answers, strict=True):
            now_ms = max(now_ms, at_ms)
            won.update(slot for slot, is_won in zip(part, claimed, strict=True) if is_won)
        return SlotClaims(frozenset(won), now_ms / 1000)

    def acquire(self, step: Acquire) -> int:
        keys = [self.lease_key(step.run), f"{self._prefix}:{{run:{step.run}}}:epoch"]
        arguments: list[Arg] = [step.owner, round(step.ttl_s * 1000), step.floor, EPOCH_MS]
        return int(self._scripts.call("acquire", keys, arguments))

    def renew(self, step: Renew) -> bool:
        arguments: list[Arg] = [step.owner, step.epoch, round(step.ttl_s * 1000)]
        return bool(self._scripts.call("renew", [self.lease_key(step.run)], arguments))

    def release(self, step: Release) -> None:
        self._scripts.call("release", [self.lease_key(step.run)], [step.owner, step.epoch])

    def leases_held(self, step: LeasesHeld) -> set[int]:
        pipeline = self._client.pipeline(transaction=False)
        for run in step.runs:
            pipeline.exists(self.lease_key(run))
        with answered():
            return {run for run, held in zip(step.runs, pipeline.execute(), strict=True) if held}

    def leases(self, runs: Sequence[int]) -> dict[int, SeenLease]:
        """What the leases of these runs are now; of those alone that somebody has."""
        pipeline = self._client.pipeline(transaction=False)
        for run in runs:
            pipeline.get(self.lease_key(run))
            pipeline.pttl(self.lease_key(run))
        with answered():
            answers = pipeline.execute()
        held = zip(runs, answers[::2], answers[1::2], strict=True)
        return {run: _seen(raw, left_ms) for run, raw, left_ms in held if raw is not None}

    def markers(self, slots: Sequence[SlotKey]) -> dict[SlotKey, SeenMarker]:
        """What the markers of these slots are now; of those alone that have one."""
        pipeline = self._client.pipeline(transaction=False)
        for key in self._markers(slots):
            pipeline.get(key)
            pipeline.pttl(key)
        with answered():
            answers = pipeline.execute()
        held = zip(slots, answers[::2], answers[1::2], strict=True)
        return {slot: _seen_marker(raw, left_ms) for slot, raw, left_ms in held if raw is not None}

    def take_away(self, run: int, epoch: int) -> TakenAway:
        """Take the lease of this epoch from whoever has it: they stop, and the run is lost."""
        return TakenAway(self._scripts.call("take_away", [self.lease_key(run)], [epoch]))

    def marker_key(self, slot: SlotKey) -> str:
        """Where the marker of a slot is kept."""
        return f"{self._prefix}:{{cron:{slot.job}}}:slot:{slot.version}:{slot.at}"

    def lease_key(self, run: int) -> str:
        """Where the lease of a run is kept."""
        return f"{self._prefix}:{{run:{run}}}:lease"

    def _markers(self, slots: Sequence[SlotKey]) -> list[str]:
        return [self.marker_key(slot) for slot in slots]


def _claim(step: ClaimSlots, slots: Sequence[SlotKey]) -> list[Arg]:
    own: list[Arg] = [step.node, round(step.ttl_s * 1000), MARKER_MS, round(step.ahead_s * 1000)]
    return [*own, *(slot.at * 1000 for slot in slots)]


def _seen_marker(raw: bytes, left_ms: int) -> SeenMarker:
    node, _, claimed = raw.decode("utf-8", "replace").rpartition(" ")
    return SeenMarker(node, int(claimed) if claimed.isdecimal() else 0, max(0, left_ms) / 1000)


def _seen(raw: bytes, left_ms: int) -> SeenLease:
    owner, _, epoch = raw.decode("utf-8", "replace").rpartition(" ")
    return SeenLease(owner, int(epoch) if epoch.isdecimal() else 0, max(0, left_ms) / 1000)
