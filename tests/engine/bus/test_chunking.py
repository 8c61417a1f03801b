"""Where a batch is cut."""

from __future__ import annotations

import pytest

from engine.bus.chunking import CHUNK_BYTES, CHUNK_MESSAGES, chunked
from engine.bus.transport import Outgoing

QUARTER = CHUNK_BYTES // 4


def batch(*sizes: int) -> list[Outgoing]:
    return [Outgoing(message_id=f"m-{number}", body=bytes(size)) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([], []),
        ([1], [1]),
        ([1] * CHUNK_MESSAGES, [CHUNK_MESSAGES]),
        ([1] * (2 * CHUNK_MESSAGES + 1), [CHUNK_MESSAGES, CHUNK_MESSAGES, 1]),
        ([QUARTER] * 4, [4]),
        ([QUARTER] * 5, [4, 1]),
        # One that is too large by itself goes alone, first or last.
        ([CHUNK_BYTES + 1, 1, 1], [1, 2]),
        ([1, CHUNK_BYTES + 1], [1, 1]),
    ],
)
def test_no_chunk_is_more_than_one_call_takes_and_none_is_empty(sizes: list[int], lengths: list[int]) -> None:
    whole = batch(*sizes)
    chunks = list(chunked(whole))
    assert [len(chunk) for chunk in chunks] == lengths
    assert [each for chunk in chunks for each in chunk] == whole
