"""From reader to workers: whoever is free takes the next delivery."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from queue import Empty, SimpleQueue
from typing import Protocol

from engine.bus.consuming.in_flight import InFlight


class Feed(Protocol):
    """Hands deliveries to workers. Thread-safe."""

    def offer(self, batch: Sequence[InFlight]) -> None:
        """Add what was read, in order."""
        ...

    def take(self) -> InFlight | None:
        """The next delivery to handle; blocks. ``None`` tells the worker to end."""
        ...

    def done(self, held: InFlight) -> None:
        """A worker has finished with ``held``, whatever came of it."""
        ...

    def retry(self, held: InFlight, after_s: float) -> bool:
        """Keep ``held`` for another attempt here; ``False`` when the store shall hand it out again."""
        ...

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        """Take back what no worker has begun, of these partitions or of all."""
        ...

    def close(self, workers: int) -> None:
        """Let that many workers end once the rest is taken."""
        ...

    def dismiss(self, workers: int) -> None:
        """Let that many workers end when they come for more; the others go on."""
        ...

    def ready(self) -> int:
        """How many wait for a worker and could be taken now."""
        ...

    def blocked(self) -> int:
        """How many wait for another delivery, not for a worker."""
        ...


class PlainFeed:
    """First come, first served."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[InFlight | None] = SimpleQueue()
        self.take = self._queue.get

    def offer(self, batch: Sequence[InFlight]) -> None:
        put = self._queue.put
        for held in batch:
            put(held)

    def done(self, held: InFlight) -> None:
        return

    def retry(self, held: InFlight, after_s: float) -> bool:
        return False

    def withdraw(self, partitions: Collection[int] | None = None) -> list[InFlight]:
        taken: list[InFlight] = []
        dismissed = 0
        while True:
            try:
                held = self._queue.get_nowait()
            except Empty:
                break
            if held is not None:
                taken.append(held)
            else:
                dismissed += 1
        # What tells a worker to end stays.
        self.dismiss(dismissed)
        return taken

    def close(self, workers: int) -> None:
        self.dismiss(workers)

    def dismiss(self, workers: int) -> None:
        for _ in range(workers):
            self._queue.put(None)

    def ready(self) -> int:
        return self._queue.qsize()

    def blocked(self) -> int:
        return 0
