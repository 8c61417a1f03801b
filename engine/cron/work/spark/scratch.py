"""A folder for what a run leaves lying about: shuffles, temporary files, a warehouse."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """One of its own in ``parent``, gone at the end; those of processes that were killed go when the next is made."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    making = _locked(parent, fcntl.LOCK_EX)
    try:
        _remove_left_behind(parent)
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
        held = _locked(folder, fcntl.LOCK_EX)
    finally:
        os.close(making)
    try:
        yield folder
    finally:
        # What resists is tried again by the next.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _remove_left_behind(parent: Path) -> None:
    """A lock ends with its process."""
    for folder in parent.iterdir():
        try:
            held = _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, FileNotFoundError):
            # In use, or removed just now.
            continue
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def _locked(folder: Path, how: int) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
