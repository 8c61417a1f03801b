"""The time that a machine really had: for the few tests that hold a promise in seconds."""

from __future__ import annotations

import time
from pathlib import Path

_STAT = Path("/proc/stat")
#: Columns of the line ``cpu`` (proc(5)) in which somebody computed; the eighth is what the hypervisor took away.
_BUSY, _STOLEN = (0, 1, 2, 5, 6), 7


class GivenTime:
    """Seconds since it was made, less the share that a hypervisor gave to other machines while this one had work.

    Where no such thing is counted (no hypervisor, no Linux) it is the time that passed.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy, self._stolen = _ticks()

    def elapsed_s(self) -> float:
        busy, stolen = (now - then for now, then in zip(_ticks(), (self._busy, self._stolen), strict=True))
        return (time.monotonic() - self._began) * share_given(busy, stolen)


def share_given(busy: int, stolen: int) -> float:
    """What became of the time that was wanted: 1 when nothing was stolen."""
    return busy / (busy + stolen) if busy + stolen else 1.0


def _ticks() -> tuple[int, int]:
    if not _STAT.exists():
        return 0, 0
    columns = [int(column) for column in _STAT.read_text(encoding="ascii").partition("\n")[0].split()[1:]]
    return sum(columns[number] for number in _BUSY), columns[_STOLEN]
