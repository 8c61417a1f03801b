"""What an installation keeps is for its own account alone: databases, keys, logs and the store's log, also old ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

#: What others than the owner may do.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def close(folder: Path, say: Callable[[str], object]) -> None:
    """Take from every other account what it may do with ``folder`` and all in it; ``say`` hears if there was any.

    An earlier release, or whoever copied the folder here, may have left it open. Links are not followed, and what
    belongs to another account, which alone may close it, is told.
    """
    closed, foreign = 0, []
    for path in _all_of(folder):
        # Files come and go while roles of an earlier start end.
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) or not mode & _OTHERS:
                continue
            try:
                path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
                closed += 1
            except PermissionError:
                foreign.append(path)
    if closed:
        say(
            f"{folder} was open to other accounts of this machine: it is closed now ({closed:,} files and folders). "
            "If others have accounts here, think of its keys as known."
        )
    if foreign:
        say(f"Warning: {foreign[0]} is open to other accounts and belongs to one ({len(foreign):,} in all).")


def _all_of(folder: Path) -> Iterator[Path]:
    """The folder first: once it is closed, nobody comes by what is not yet."""
    yield folder
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))
