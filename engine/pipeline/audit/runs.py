"""The order of each key, told by runs: rows that follow each other as they should are one, whatever their number.

Nothing is lost by it: a run of sequence numbers is its first one and how many there are, and the runs of a key, in the
order of storing, are all its numbers. Where a message bears none its time, as the producer said it, takes its place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.pipeline.audit.sides import Array

#: Bits of ``run_how``: ordered by time and not by sequence; a copy, or a message that waited for its time, and so comes
#: when it does.
BY_TIME, EXEMPT = 1, 2

Ints = NDArray[np.int64]


def runs_of(
    *,
    keys: Ints,
    sources: NDArray[np.int32],
    sequences: Ints,
    times: Ints,
    exempt: NDArray[np.bool_],
    present: NDArray[np.bool_],
) -> dict[str, Array]:
    """Of rows as they lie in a file. -1 is no sequence, and no time; what is not ``present`` has no key.

    A run is of one key and one source, for a sequence is counted by its producer, and lies in one piece: ``run_row`` is
    its first row, ``run_first`` and ``run_last`` are its first and last number, or times.
    """
    by_time = sequences < 0
    value = np.where(by_time, times, sequences)
    present = present & (value >= 0)
    how = by_time * np.uint8(BY_TIME) | exempt * np.uint8(EXEMPT)
    begins = np.ones(len(keys), bool)
    if len(keys) > 1:
        goes_on = np.where(by_time[1:], value[1:] >= value[:-1], value[1:] == value[:-1] + 1)
        same = (keys[1:] == keys[:-1]) & (sources[1:] == sources[:-1]) & (how[1:] == how[:-1])
        begins[1:] = ~(goes_on & same & present[1:] & present[:-1])
    firsts = np.flatnonzero(begins)
    lengths = np.diff(np.append(firsts, len(keys)))
    kept = present[firsts]
    firsts, lengths = firsts[kept], lengths[kept]
    return {
        "run_key": keys[firsts],
        "run_source": sources[firsts],
        "run_first": value[firsts],
        "run_last": value[firsts + lengths - 1],
        "run_rows": lengths.astype(np.int32),
        "run_row": firsts.astype(np.int32),
        "run_how": how[firsts].astype(np.uint8),
    }
