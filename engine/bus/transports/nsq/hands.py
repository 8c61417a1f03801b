"""What was handed out and is not settled: where each came from, and the body for when it has to be kept beside nsqd."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence

import msgspec

from engine.bus.transports.nsq.connection import NsqdConnection

#: Seconds between two looks for what nobody will settle any more.
SWEEP_S = 60.0


class Hand(msgspec.Struct, gc=False):
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


def uncount(hands: Iterable[Hand]) -> int:
    """How many of them were still counted among those in flight; none is any more. On the loop only."""
    number = 0
    for hand in hands:
        number += hand.counted
        hand.counted = False
    return number


class Hands:
    """Of one group, shared by all its receivers in this process: any of them may settle. Thread-safe."""

    def __init__(self) -> None:
        self._hands: dict[str, Hand] = {}
        self._swept = time.monotonic()
        self._lock = threading.Lock()

    def add(self, hands: Iterable[tuple[str, Hand]], lease_s: float) -> None:
        """Note what is handed out, by receipt."""
        self._hands.update(hands)
        now = time.monotonic()
        if now - self._swept > SWEEP_S and self._lock.acquire(blocking=False):
            try:
                self._swept = now
                # Twice the lease: until then somebody may still settle, late.
                for receipt, hand in list(self._hands.items()):
                    if hand.until + 2 * lease_s < now:
                        self._hands.pop(receipt, None)
            finally:
                self._lock.release()

    def get(self, receipts: Sequence[str]) -> list[Hand | None]:
        return [self._hands.get(receipt) for receipt in receipts]

    def given_up(self, connections: Collection[NsqdConnection], before: float) -> list[Hand]:
        """Those of ``connections`` whose lease ran out before: nsqd waits for them no longer."""
        return [
            hand
            for hand in list(self._hands.values())
            if hand.counted and hand.until < before and hand.connection is not None and hand.connection in connections
        ]

    def drop(self, receipt: str) -> Hand | None:
        """Forget one; ``None`` when somebody else has."""
        return self._hands.pop(receipt, None)
