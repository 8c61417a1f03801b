"""What was handed out and is not settled: where each came from, and the body for when it has to be kept beside nsqd."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

import msgspec

from engine.bus.transports.nsq.connection import NsqdConnection

#: Seconds between two looks for what nobody will settle any more.
SWEEP_S = 60.0


class Hand(msgspec.Struct, gc=False):
    """One delivery; ``connection`` is ``None`` for what lies beside nsqd."""

    id: str
    body: bytes
    connection: NsqdConnection | None
    #: Monotonic seconds after which nsqd has given up waiting, most likely.
    until: float


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

    def drop(self, receipt: str) -> Hand | None:
        """Forget one; ``None`` when somebody else has."""
        return self._hands.pop(receipt, None)
