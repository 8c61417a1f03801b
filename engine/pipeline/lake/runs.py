"""Runs that write files: each holds a lock while it lives, and what it leaves when it dies is swept.

A file that no commit names belongs to a run that has not committed yet, or to one that never will. The run is in its
name, and a lock ends with its process, so nobody guesses by age which it is.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.file_lock import unlock
from engine.pipeline.lake.files import DATA
from engine.pipeline.lake.state import LakeState

RUNS = "runs"
_RUN_OF = re.compile(r"\.?(r[0-9a-f]{16})-")


@contextmanager
def run_of(root: Path) -> Iterator[str]:
    """A name for the files of one run; while it is held they are not swept. Raises ``OSError``."""
    folder = root / RUNS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    run = f"r{secrets.token_hex(8)}"
    path, draft = folder / run, folder / f".{run}"
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # Under its name it was never without its lock: nobody takes it for a dead one.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        draft.rename(path)
        yield run
    finally:
        path.unlink(missing_ok=True)
        unlock(descriptor)
        os.close(descriptor)


def is_alive(root: Path, run: str) -> bool:
    """Whether its process holds it still."""
    try:
        descriptor = os.open(root / RUNS / run, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def left_behind(root: Path, state: LakeState) -> list[Path]:
    """Files below ``data`` that no commit up to ``state`` names and no living run can name any more.

    ``state`` was read before: a run that has committed since is dead or alive by its lock, and its files are looked up
    once more by who removes them.
    """
    dead: dict[str, bool] = {}
    found = []
    for path in sorted((root / DATA).rglob("*")):
        run = _RUN_OF.match(path.name)
        if run is None or not path.is_file() or str(path.relative_to(root)) in state.files:
            continue
        if run[1] not in dead:
            dead[run[1]] = not is_alive(root, run[1])
        if dead[run[1]]:
            found.append(path)
    return found


def forget_dead_runs(root: Path) -> None:
    """Locks of processes that were killed."""
    for path in sorted((root / RUNS).glob("r*")):
        if not is_alive(root, path.name):
            path.unlink(missing_ok=True)
