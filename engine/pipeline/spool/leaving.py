"""What leaves a spool: whole files of what is archived, once their time is over, and spools that nobody wants."""

from __future__ import annotations

import fcntl
import os
import shutil
from itertools import pairwise
from pathlib import Path

from engine.core.file_lock import file_lock
from engine.pipeline.lake.files import sync_folder
from engine.pipeline.spool.files import SpoolFile, folder, paths_in
from engine.pipeline.spool.writer import LOCK


def let_go(root: Path, topic: str, *, life: str, upto: int, before_ms: int) -> int:
    """Remove the files that hold nothing beyond number ``upto`` of that life, and nothing appended at ``before_ms`` or
    later; how many that were. The last one stays: it knows how far the numbers have come.

    Beside whoever writes and whoever reads. Raises ``OSError`` and
    :class:`~engine.pipeline.spool.errors.SpoolDamaged`.
    """
    gone = 0
    for path, following in pairwise(paths_in(folder(root, topic))):
        try:
            file = SpoolFile(following)
        except FileNotFoundError:
            # Somebody else is at it.
            break
        file.close()
        said = file.beginning
        if said.life != life or said.first - 1 > upto or said.before_ms >= before_ms:
            break
        path.unlink(missing_ok=True)
        gone += 1
    if gone:
        sync_folder(folder(root, topic))
    return gone


def spools_in(root: Path) -> list[Path]:
    """The folders of all spools."""
    return sorted(path for path in root.glob("*") if (path / LOCK).exists())


def last_touched_ms(place: Path) -> int:
    """When something was appended to that spool last, or a file made; epoch milliseconds."""
    return max((path.stat().st_mtime_ns // 1_000_000 for path in paths_in(place)), default=0)


def forget(place: Path) -> bool:
    """Remove that spool with all that it holds; ``False`` where a process holds it. Raises ``OSError``."""
    descriptor = os.open(place / LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        with file_lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(place)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    sync_folder(place.parent)
    return True
