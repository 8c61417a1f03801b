"""A folder for what a run leaves lying about: shuffles, temporary files, a warehouse. A name is never used again."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.cron.work.folder_lock import folder_lock, lock_folder, unlock_folder


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """One of its own in ``parent``, gone at the end; :func:`remove_left_behind` removes that of a process that was
    killed."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with folder_lock(parent):
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
        held = lock_folder(folder)
    try:
        yield folder
    finally:
        # What resists is left behind.
        shutil.rmtree(folder, ignore_errors=True)
        unlock_folder(held)


def remove_left_behind(parent: Path) -> None:
    """Those that no process holds any more: a lock ends with its process."""
    for folder in _left_behind(parent):
        shutil.rmtree(folder, ignore_errors=True)


def _left_behind(parent: Path) -> list[Path]:
    if not parent.exists():
        return []
    # While none is being made: between that and its lock it would look like one that was left.
    with folder_lock(parent):
        return [folder for folder in parent.iterdir() if not _is_held(folder)]


def _is_held(folder: Path) -> bool:
    try:
        unlock_folder(lock_folder(folder, fcntl.LOCK_EX | fcntl.LOCK_NB))
    except (BlockingIOError, FileNotFoundError, NotADirectoryError):
        # In use, removed just now, or none of ours.
        return True
    return False
