"""What questions cost a store: how often it had to be turned to, which a busy machine does not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis

from tests.costs import Cost


@contextmanager
def store_reads(url: str) -> Iterator[Cost]:
    """How often the server at ``url`` read from a connection: once for each round trip, or for each 16 KiB sent."""
    client = redis.Redis.from_url(url)
    cost = Cost()

    def reads() -> int:
        return int(client.info("stats")["total_reads_processed"])  # type: ignore[index,arg-type]

    before = reads()
    yield cost
    # The two questions of our own are one read each, of which the first was counted before.
    cost.units = reads() - before - 1
    client.close()
