"""Room on the disk for what a process counts, had before it is written.

The client of Prometheus maps files of holes into memory. Where the disk is full a write into a hole is no error that
anybody could catch: the system kills the process (SIGBUS). So the room is reserved when a file is made or grown, and a
process that gets none goes on counting in its memory, where nobody else sees it, and says so.
"""

from __future__ import annotations

import logging
import mmap
import os
from pathlib import Path
from typing import Any

from prometheus_client import mmap_dict, values

#: How large the client makes a new file.
_FIRST = 1 << 16
#: It has no types.
_MMAPPED: Any = mmap_dict.MmapedDict

_log = logging.getLogger(__name__)


class ReservedValues(_MMAPPED):  # type: ignore[misc]
    """The client's file of values, whose pages are all on the disk; without room for them, memory of this process."""

    _f: Any
    _m: Any
    _positions: dict[str, int]

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        #: Whether there was no room for them.
        self.unseen = False
        if read_mode:
            super().__init__(filename, read_mode)
            return
        try:
            _make(Path(filename))
            super().__init__(filename)
        except OSError as error:
            _say(filename, error)
            self.unseen = True
            self._f, self._fname, self._positions = None, filename, {}
            self._capacity, self._used = _FIRST, 8
            self._m = mmap.mmap(-1, _FIRST)
            self._m[0:4] = self._used.to_bytes(4, "little")

    def _init_value(self, key: str) -> None:
        # As long as the key, its padding and its numbers can be.
        self._have_room(len(key.encode()) + 32)
        super()._init_value(key)

    def _have_room(self, more: int) -> None:
        capacity = self._capacity
        while self._used + more > capacity:
            capacity *= 2
        if capacity == self._capacity:
            return
        if not self.unseen:
            try:
                _fill(self._f.fileno(), capacity)
                self._m, self._capacity = mmap.mmap(self._f.fileno(), capacity), capacity
                return
            except OSError as error:
                _say(self._fname, error)
        # What was counted so far stays to be seen in the file.
        grown = mmap.mmap(-1, capacity)
        grown[: self._used] = self._m[: self._used]
        if not self.unseen:
            self._f.close()
            self._f, self.unseen = None, True
        self._m, self._capacity = grown, capacity

    def close(self) -> None:
        """Idempotent."""
        if self.unseen and self._m is not None:
            self._m.close()
            self._m = None
        super().close()


def reserve() -> None:
    """From now on, for all that this process counts."""
    client: Any = mmap_dict
    client.MmapedDict = values.MmapedDict = ReservedValues  # type: ignore[attr-defined]
    # It looked where processes count when it was first imported, which may have been long before.
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


def _make(path: Path) -> None:
    """Its room; leaves no file that nobody could read. Raises ``OSError``."""
    with path.open("a+b") as file:
        had = os.fstat(file.fileno()).st_size
        try:
            _fill(file.fileno(), had or _FIRST)
        except OSError:
            if not had:
                path.unlink()
            raise


def _fill(descriptor: int, size: int) -> None:
    """Give a file ``size`` bytes that lie on the disk. Raises ``OSError`` when there are not so many."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    # Where a system has no such call: what is there is kept, and zeros are written behind it.
    had = os.fstat(descriptor).st_size
    written = 0
    while had + written < size:
        written += os.pwrite(descriptor, bytes(size - had - written), had + written)


def _say(filename: str, error: OSError) -> None:
    _log.error(
        "there is no room for %s (%s): this process counts on in its memory, and what it counts is not shown "
        "until it is started again",
        filename,
        error.strerror,
    )
