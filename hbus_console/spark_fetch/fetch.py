"""The fetch itself: what ``requirements-spark.txt`` names, installed beside this Python, once at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.core.file_lock import unlock
from hbus_console.spark_fetch.pip_output import PipOutput
from hbus_console.spark_fetch.pip_run import run_pip
from hbus_console.spark_fetch.progress import Phase
from hbus_console.spark_fetch.whole import forget_half_installed

#: How often it is looked how far a download is, and whether it is still wanted.
TURN_S = 0.5
#: What pip and what it starts leave on their way lies in here, beside the stamp: as much again as Spark itself.
_ROOM = ".fetching-spark"


class FetchListener(Protocol):
    """Who hears how it goes. What one of these raises ends the fetch."""

    def line(self, text: str) -> object:
        """What pip or the fetch says, without credentials."""
        ...

    def phase(self, phase: Phase, package: str = "", done: int = 0, total: int = 0) -> object:
        """How far it is, every :data:`TURN_S` seconds."""
        ...

    def pause(self, seconds: float) -> object:
        """Wait so long, where another fetch goes on."""
        ...


@dataclass(frozen=True)
class Fetch:
    """``stamp``: the file that says that all of it is installed. ``needs``: what pip is to install, as its arguments.

    ``umask`` is that of the files which pip writes.
    """

    stamp: Path
    needs: Sequence[str]
    umask: int

    def run(self, listener: FetchListener, environment: Mapping[str, str]) -> str:
        """Empty once it is installed, else why it is not, in pip's last words. From the main thread only."""
        with _alone(self.stamp.with_name(f"{_ROOM}.lock"), listener):
            if self.stamp.exists():
                return ""
            for half in forget_half_installed():
                listener.line(f"{half} was cut off on its way, and is installed anew.")
            with _room(self.stamp.with_name(_ROOM)) as room:
                failed = self._install(listener, {**environment, "TMPDIR": str(room), "PYTHONUNBUFFERED": "1"}, room)
            if not failed:
                self._put_stamp()
            return failed

    def _install(self, listener: FetchListener, environment: Mapping[str, str], room: Path) -> str:
        # Not --progress-bar raw, which would tell the bytes: a Python 3.11 brings a pip that is too old for it.
        words = ("install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", *self.needs)
        output = PipOutput()

        def hear(line: str) -> None:
            listener.line(output.feed(line))

        def tell() -> None:
            done = _size_below(room, output.file) if output.file else 0
            listener.phase(output.phase, output.package, min(done, output.total), output.total if output.file else 0)

        tell()
        code = run_pip(words, environment, self.umask, on_line=hear, on_turn=tell, turn_s=TURN_S)
        return "" if code == 0 else output.last_words or f"pip ended with exit code {code}"

    def _put_stamp(self) -> None:
        # One of other pins is no longer true.
        for former in self.stamp.parent.glob(".spark-*"):
            former.unlink()
        self.stamp.touch()


def _size_below(room: Path, name: str) -> int:
    """Bytes of the file of that name as far as pip has written it; 0 where it is not there (any more)."""
    for path in room.glob(f"pip-unpack-*/{name}"):
        try:
            return path.stat().st_size
        except FileNotFoundError:
            continue
    return 0


@contextmanager
def _room(folder: Path) -> Iterator[Path]:
    """An empty folder, gone afterwards; what a killed fetch left in it goes first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder.resolve()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(path: Path, listener: FetchListener) -> Iterator[None]:
    """No other fetch installs into the same Python meanwhile."""
    with path.open("a", encoding="utf-8") as lock:
        _wait_for(lambda: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB), listener)
        try:
            yield
        finally:
            unlock(lock)


def _wait_for(take: Callable[[], object], listener: FetchListener) -> None:
    waits = False
    while True:
        try:
            take()
            return
        except BlockingIOError:
            if not waits:
                listener.line("Spark is being fetched already; waiting for the end of that.")
            waits = True
            listener.phase(Phase.WAITING)
            listener.pause(TURN_S)


def usual_umask() -> int:
    """That of this process, which can only be had by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found
