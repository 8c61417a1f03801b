"""What was handed out and is not settled: where each came from, and the body for when it has to be kept beside nsqd."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence

import msgspec

from engine.bus.transports.nsq.connection import NsqdConnection

#: Seconds between two looks for what nobody will settle any more.
SWEEP_S = 60.0


class DeliveryLease(msgspec.Struct, gc=False):
    """One delivery; ``connection`` is ``None`` for what lies beside nsqd."""

    id: str
    body: bytes
    connection: NsqdConnection | None
    #: Monotonic seconds at which the lease runs out.
    until: float
    #: nsqd had sent it before: whoever had it then may have that copy still, unread.
    again: bool = False
    #: Among those in flight on its connection, as far as nsqd is concerned. Touched on the loop only.
    counted: bool = True
    #: What was decided about it may be done: the answer was lost. Then the store refuses it the next time.
    unheard: bool = False


def uncount(leases: Iterable[DeliveryLease]) -> int:
    """How many of them were still counted among those in flight; none is any more. On the loop only."""
    number = 0
    for lease in leases:
        number += lease.counted
        lease.counted = False
    return number


class DeliveryLeases:
    """Of one group, shared by all its receivers in this process: any of them may settle. Thread-safe."""

    def __init__(self) -> None:
        self._leases: dict[str, DeliveryLease] = {}
        self._swept = time.monotonic()
        self._lock = threading.Lock()

    def add(self, leases: Iterable[tuple[str, DeliveryLease]], lease_s: float) -> None:
        """Note what is handed out, by receipt."""
        self._leases.update(leases)
        now = time.monotonic()
        if now - self._swept > SWEEP_S and self._lock.acquire(blocking=False):
            try:
                self._swept = now
                # Twice the lease: until then somebody may still settle, late.
                for receipt, lease in list(self._leases.items()):
                    if lease.until + 2 * lease_s < now:
                        self._leases.pop(receipt, None)
            finally:
                self._lock.release()

    def get(self, receipts: Sequence[str]) -> list[DeliveryLease | None]:
        return [self._leases.get(receipt) for receipt in receipts]

    def given_up(self, connections: Collection[NsqdConnection], before: float) -> list[DeliveryLease]:
        """Those of ``connections`` whose lease ran out before: nsqd waits for them no longer."""
        return [
            lease
            for lease in list(self._leases.values())
            if lease.counted
            and lease.until < before
            and lease.connection is not None
            and lease.connection in connections
        ]

    def drop(self, receipt: str) -> DeliveryLease | None:
        """Forget one; ``None`` when somebody else has."""
        return self._leases.pop(receipt, None)
