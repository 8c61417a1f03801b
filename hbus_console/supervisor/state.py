"""What the supervisor knows, written to ``STATE/run/supervisor.json`` for ``manage.py status`` and the cluster page."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec
import psutil

from engine.core.file_lock import unlock
from engine.core.prepared import prepared

#: The words for a process's state, in the order of a life.
WAITING = "waiting"
STARTING = "starting"
READY = "ready"
NOT_READY = "not ready"
BACKING_OFF = "backing off"
STOPPING = "stopping"
STOPPED = "stopped"


class RoleState(msgspec.Struct):
    """One process of the installation. Times are epoch milliseconds, 0 when it has not happened."""

    role: str
    slot: int
    state: str = WAITING
    pid: int = 0
    #: Start of the process as the kernel has it: tells a reused process id from the one meant.
    created_s: float = 0.0
    started_ms: int = 0
    ready_ms: int = 0
    restarts: int = 0
    #: Why it is not ready now.
    reason: str = ""
    #: What it last died of or fell short of, also after it has recovered.
    last_error: str = ""
    last_error_ms: int = 0
    address: str = ""

    @property
    def name(self) -> str:
        """``web``, or ``consumer-1`` for a second one."""
        return self.role if self.slot == 0 else f"{self.role}-{self.slot}"

    def process(self) -> psutil.Process | None:
        """The living process, or ``None``."""
        if not self.pid:
            return None
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.created_s) < 1 and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return found if same else None

    def memory(self) -> int:
        """Resident bytes of the process and all below it; 0 when it does not run."""
        process = self.process()
        return 0 if process is None else tree_memory(process)


class Snapshot(msgspec.Struct):
    """The supervisor and its processes at one instant."""

    pid: int
    started_ms: int
    #: Where a browser goes.
    url: str
    #: Address of the store, without its password.
    store: str
    embedded_store: bool
    roles: list[RoleState]

    def memory(self) -> int:
        """Resident bytes of the supervisor's own process."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0


def tree_memory(process: psutil.Process) -> int:
    """Resident bytes of a process and its descendants."""
    total = 0
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for member in family:
        try:
            total += int(member.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return total


def write(state: Path, snapshot: Snapshot) -> None:
    """Replace the file in one step: a reader sees the old or the new one, never half. Raises ``OSError``."""
    path = _path(state)
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(snapshot), indent=1))
        draft.replace(path)
    except OSError:
        # What a full disk took of it is room that others wait for.
        draft.unlink(missing_ok=True)
        raise


class Notes:
    """Writes the file for a process that must go on without it. Not thread-safe.

    A disk that takes nothing is told through ``say``, once, and so is that it takes it again.
    """

    def __init__(self, state: Path, say: Callable[[str], object]) -> None:
        self._state = state
        self._say = say
        self._unwritten: Snapshot | None = None

    def write(self, snapshot: Snapshot) -> None:
        """Never raises ``OSError``: what could not be written is kept for :meth:`retry`."""
        before, self._unwritten = self._unwritten, None
        try:
            write(self._state, snapshot)
        except OSError as error:
            self._unwritten = snapshot
            if before is None:
                self._say(
                    f"What runs cannot be noted in {_path(self._state)} ({error.strerror or error}): until it can, "
                    "`manage.py status` and the cluster page show what was before. Make room on its disk."
                )
        else:
            if before is not None:
                self._say("What runs is noted again.")

    def retry(self) -> None:
        """Write what could not be written; nothing when all is."""
        if self._unwritten is not None:
            self.write(self._unwritten)


def read(state: Path) -> Snapshot | None:
    """The last one written; ``None`` when there was never any or it is not ours."""
    try:
        return msgspec.json.decode(_path(state).read_bytes(), type=prepared(Snapshot))
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def hold(state: Path) -> IO[str] | None:
    """Take the installation's lock for as long as the answer stays open; ``None`` when another supervisor has it."""
    lock = (_folder(state) / "supervisor.lock").open("a", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def is_running(state: Path) -> bool:
    """Whether a supervisor holds the lock now."""
    lock = hold(state)
    if lock is None:
        return True
    unlock(lock)
    lock.close()
    return False


def _folder(state: Path) -> Path:
    folder = state / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _path(state: Path) -> Path:
    return _folder(state) / "supervisor.json"
