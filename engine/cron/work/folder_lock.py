"""A lock on a folder, which ends with the process that has it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.file_lock import unlock


def lock_folder(folder: Path, how: int = fcntl.LOCK_EX) -> int:
    """What has it until :func:`unlock_folder`. Raises ``BlockingIOError`` under ``LOCK_NB``, and ``OSError``."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def unlock_folder(descriptor: int) -> None:
    """Once; it is closed with that."""
    unlock(descriptor)
    os.close(descriptor)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """One at a time: whoever makes something there and locks it, and whoever looks for what nobody locks any more."""
    descriptor = lock_folder(folder)
    try:
        yield
    finally:
        unlock_folder(descriptor)
