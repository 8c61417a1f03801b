"""Batches in parts that a store takes in one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.bus.transport import Outgoing

#: The most messages and bytes of one call; only a message alone may be larger. Redis does nothing else meanwhile, and
#: nsqd takes at most 5 MiB.
CHUNK_MESSAGES = 500
CHUNK_BYTES = 4 * 1024 * 1024


def chunked(batch: Sequence[Outgoing]) -> Iterator[Sequence[Outgoing]]:
    """The batch in its order, cut where the next message would be too much for one call."""
    start = size = 0
    for index, each in enumerate(batch):
        length = len(each.body)
        if index > start and (index - start >= CHUNK_MESSAGES or size + length > CHUNK_BYTES):
            yield batch[start:index]
            start, size = index, 0
        size += length
    if start < len(batch):
        yield batch[start:]
