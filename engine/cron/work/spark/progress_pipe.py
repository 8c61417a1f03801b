"""The pipe on which a driver tells how far it is, at the worker's end.

Whatever stands in it: once a second it is emptied, up to a bound, and the newest of it that is right is handed on.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Self

from engine.core.errors import BadInput
from engine.cron.work.call import RunContext
from engine.cron.work.spark.bounds import LONGEST
from engine.cron.work.spark.progress import SparkProgress, read_progress

#: Is given what a driver tells, by a thread of the pipe's own. Raises nothing.
Tell = Callable[[SparkProgress], None]
#: How often the pipe is emptied at most, in seconds, and how much of it is read then, in bytes: who writes more waits.
EVERY_S, MOST = 1.0, 2 * LONGEST
#: So many of the newest lines are looked at for one that is right.
_TRIES = 8
_PIECE = 64 * 1024


class ProgressPipe:
    """One of a run, in a folder of its own, for the time of a ``with``."""

    def __init__(self, folder: Path, context: RunContext, tell: Tell) -> None:
        self.path = folder / "progress"
        #: The Python error that the driver told last; empty: none.
        self.failure = ""
        self._context = context
        self._tell = tell
        self._pipe = -1
        self._rest = b""
        #: What comes next is the rest of a line that was too long.
        self._in_long_line = False
        self._refused = False

    def __enter__(self) -> Self:
        """Where no such pipe can be made the driver finds none, and says so."""
        try:
            os.mkfifo(self.path, 0o600)
            # Open for writing as well: else it would look ended before the driver comes, and once that has gone.
            self._pipe = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return self
        self._ended, self._end = os.pipe()
        self._thread = Thread(target=self._listen, name="spark-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pipe < 0:
            return
        os.close(self._end)
        self._thread.join()
        os.close(self._ended)
        os.close(self._pipe)

    def _listen(self) -> None:
        over = False
        while not over:
            ready, _, _ = select.select([self._pipe, self._ended], [], [])
            over = self._ended in ready
            self._take()
            if not over:
                select.select([self._ended], [], [], EVERY_S)

    def _take(self) -> None:
        lines = self._lines()
        for line in [line for line in reversed(lines) if line.strip()][:_TRIES]:
            try:
                progress = read_progress(line, self._context.secrets)
            except BadInput as error:
                self._refuse(error.what)
                continue
            self.failure = progress.failure
            self._tell(progress)
            return

    def _lines(self) -> list[bytes]:
        """Those that have ended, the newest last."""
        pieces, left = [self._rest], MOST
        while left > 0:
            try:
                piece = os.read(self._pipe, min(_PIECE, left))
            except BlockingIOError:
                break
            pieces.append(piece)
            left -= len(piece)
        *lines, self._rest = b"".join(pieces).split(b"\n")
        if self._in_long_line and lines:
            del lines[0]
            self._in_long_line = False
        if len(self._rest) > LONGEST:
            self._rest, self._in_long_line = b"", True
            self._refuse(f"a line of it is longer than {LONGEST:,} bytes")
        return lines

    def _refuse(self, why: str) -> None:
        """Said once: what does it may do so a thousand times a second."""
        if not self._refused:
            self._refused = True
            self._context.log.write(f"hbus: what was told of the progress is refused: {why[:500]}\n")
