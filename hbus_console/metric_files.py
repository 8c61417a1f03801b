"""The folder in which the processes of one installation count together: which ones do, and what stays of them.

Each process counts into files named after it, which the client of Prometheus maps into memory. One that ends hands what
it counted over to files that belong to none, or every import and every shell would leave its own for ever. One that is
killed leaves its own; the next ``manage.py up`` begins with an empty folder.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.core.file_lock import file_lock

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
#: Gauges whose newest value counts, whichever process set it.
_NEWEST = "gauge_mostrecent"
#: What is added up.
_ADDED = ("counter", "histogram", "summary")
#: No process has this number.
_NOBODY = 0

_log = logging.getLogger(__name__)


def share(folder: Path) -> None:
    """Let this process count where the others do, if there is an installation around ``folder``.

    What was made to count with before that, such as a program's own figures, goes on for itself. Makes the folder,
    never its parent. For somebody who may not write there the process counts for itself.
    """
    if not os.environ.get(VARIABLE):
        if not os.access(folder.parent, os.W_OK):
            return
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            _log.error("%s cannot be made (%s): this process counts for itself", folder, error.strerror)
            return
        if not os.access(folder, os.W_OK):
            return
        os.environ[VARIABLE] = str(folder)
    # The client looks once, when it is first imported, where processes count.
    from hbus_console.metric_space import reserve

    reserve()
    atexit.register(_leave, Path(os.environ[VARIABLE]), os.getpid())


@contextmanager
def steady(folder: Path, *, alone: bool = False) -> Iterator[None]:
    """While nobody hands anything over: what is read then counts nothing twice and misses nothing.

    ``alone`` waits for readers as well, so that what it holds may hand over.
    """
    with (folder / "lock").open("w") as lock, file_lock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
        yield


def _leave(folder: Path, process: int) -> None:
    # A child that was forked has another number, and its parent goes on counting; and `up` may have made all anew.
    if os.getpid() != process or not folder.is_dir():
        return
    with steady(folder, alone=True):
        hand_over(folder, process)


def hand_over(folder: Path, process: int) -> None:
    """Add what ``process`` has counted to the files of nobody, and remove its own. Takes :func:`steady`, alone.

    A process killed meanwhile loses what it had counted; nothing is counted twice.
    """
    # It looks once, when it is first imported, where processes count.
    from prometheus_client.mmap_dict import MmapedDict

    # It has no types.
    values: Any = MmapedDict
    for kind in (*_ADDED, _NEWEST):
        own = folder / f"{kind}_{process}.db"
        if not own.is_file():
            continue
        counted = [row[:3] for row in values.read_all_values_from_file(str(own))]
        kept = values(str(folder / f"{kind}_{_NOBODY}.db"))
        if getattr(kept, "unseen", False):
            # There is no room: its own files stay, as those of one that was killed.
            kept.close()
            return
        own.unlink()
        for key, value, at_s in counted:
            before, before_s = kept.read_value(key)
            if kind != _NEWEST:
                kept.write_value(key, before + value, at_s)
            elif at_s >= before_s:
                kept.write_value(key, value, at_s)
        kept.close()
    for own in folder.glob(f"*_{process}.db"):
        own.unlink()
