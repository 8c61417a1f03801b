"""Locks on files, which end with the process that has them, and before that with who took them.

Not by closing the file alone: what this process has forked meanwhile has it open as well, and would keep the lock.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


def unlock(file: int | IO[str] | IO[bytes]) -> None:
    """Whoever else has this opening of the file open has no lock either."""
    fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def file_lock(file: int | IO[str] | IO[bytes], how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold it meanwhile. Raises ``BlockingIOError`` under ``LOCK_NB`` where another has it, and ``OSError``."""
    fcntl.flock(file, how)
    try:
        yield
    finally:
        unlock(file)
