"""Texts as 64-bit numbers, whole columns at once: the same everywhere and for ever.

What is compared here is compared by them: ten million ids have two with one hash about once in 370,000 times. Copies of
a message are told by its id itself, and their payloads by another such number; what is missing would go unseen with
that chance. They withstand chance and not intent: who may publish can make ids of one hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_FIRST, _SECOND = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_S29, _S32 = np.uint64(29), np.uint64(32)
_NONE, _ONE, _BYTE, _WORD = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(64)
#: Rows at once: so few that their texts stay in the processor's cache.
_ROWS = 8_192
#: Told apart from each other by where they begin.
OTHER = np.uint64(0xD6E8FEB86659FD93)


def hash_texts(column: pa.Array | pa.ChunkedArray, seeds: Hashes | np.uint64 = _NONE) -> Hashes:
    """Of each text or bytes; of null as of empty. ``seeds``, one for all or one for each, makes it another hash."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if column.null_count:
        column = pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "")
    count = len(column)
    _, places, content = column.buffers()
    if not count or content is None:
        return _finished(np.zeros(count, np.uint64) ^ seeds)
    offsets = np.frombuffer(places, np.int32)[column.offset : column.offset + count + 1].astype(np.int64)
    # The last text is read in whole words as well, and the one behind each.
    words = np.zeros((offsets[-1] - offsets[0] >> 3) + 2, "<u8")
    words.view(np.uint8)[: offsets[-1] - offsets[0]] = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    made = np.empty(count, np.uint64)
    begins = np.broadcast_to(np.asarray(seeds, np.uint64), (count,))
    for start in range(0, count, _ROWS):
        end = min(start + _ROWS, count)
        made[start:end] = _hashed(words, offsets[start : end + 1], begins[start:end])
    return made


def hash_text(text: str) -> int:
    """Of one, as :func:`hash_texts` has it."""
    return int(hash_texts(pa.array([text], pa.string()))[0])


def signed(hashes: Hashes) -> NDArray[np.int64]:
    """The same bits, as columns have them."""
    return hashes.view(np.int64)


def _hashed(words: Hashes, offsets: NDArray[np.int64], seeds: Hashes) -> Hashes:
    lengths = np.diff(offsets)
    # The longest first: a word of all that have so many is taken in at once.
    order = np.argsort(-_small(lengths >> 3), kind="stable")
    at, lengths = offsets[:-1][order], lengths[order]
    whole = lengths >> 3
    mixed = (lengths.astype(np.uint64) * _FIRST) ^ seeds[order]
    # Texts begin anywhere, and words are read where processors have them: each is the end of one and the beginning of
    # the next, which is the next one's first.
    place, behind = at >> 3, (at & 7).astype(np.uint64) * _BYTE
    before = _WORD - behind
    low = words[place]
    for number in np.searchsorted(-whole, -np.arange(1, int(whole[0]) + 1), side="right").tolist():
        part, here = mixed[:number], place[:number]
        here += 1
        high = words[here]
        part ^= (low[:number] >> behind[:number]) | (high << before[:number])
        part *= _FIRST
        part ^= part >> _S29
        low[:number] = high
    last = (low >> behind) | (words[place + 1] << before)
    mixed ^= last & ((_ONE << ((lengths & 7).astype(np.uint64) * _BYTE)) - _ONE)
    made = np.empty_like(mixed)
    made[order] = _finished(mixed)
    return made


def _small(counts: NDArray[np.int64]) -> NDArray[Any]:
    """Sorted ten times as fast, where they are."""
    return counts.astype(np.int16) if counts.max() < 2**15 else counts


def _finished(mixed: Hashes) -> Hashes:
    mixed = mixed * _FIRST
    mixed ^= mixed >> _S29
    mixed *= _SECOND
    mixed ^= mixed >> _S32
    return mixed
