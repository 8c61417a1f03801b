"""How far the fetch of Spark is: ``STATE/run/spark.json``, written whole by the fetch and read by whoever needs Spark.

It rests on two processes, the fetch and the ``make run`` it belongs to, and is believed only while they live.
"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import msgspec
import psutil

from engine.core.prepared import prepared

_MB = 1_000_000


class Phase(StrEnum):
    #: Another fetch into the same Python goes on, and this one waits for its end.
    WAITING = "waiting"
    DOWNLOADING = "downloading"
    BUILDING = "building"
    INSTALLING = "installing"
    READY = "ready"
    FAILED = "failed"


#: The last word of a fetch, which is true also when its process is gone.
_ENDED = (Phase.READY, Phase.FAILED)


class Living(msgspec.Struct, frozen=True):
    """One process, told from a later one of its number by when it began."""

    pid: int
    created_s: float

    @classmethod
    def of(cls, pid: int) -> Living:
        """Raises ``psutil.NoSuchProcess``."""
        return cls(pid, psutil.Process(pid).create_time())

    def is_there(self) -> bool:
        try:
            found = psutil.Process(self.pid)
            return abs(found.create_time() - self.created_s) < 1 and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


class Progress(msgspec.Struct, frozen=True):
    """One instant of a fetch."""

    phase: Phase
    fetch: Living
    #: The supervisor that the fetch runs beside.
    beside: Living
    #: What is being downloaded, built or installed; empty where pip has not said.
    package: str = ""
    #: Of a download, in bytes; a total of 0: pip does not know it.
    done: int = 0
    total: int = 0
    #: Of a failure: pip's last words, without credentials.
    said: str = ""

    @property
    def goes_on(self) -> bool:
        return self.phase not in _ENDED

    @property
    def replacing(self) -> bool:
        """Whether a Spark that is found now may be half of one."""
        return self.phase is Phase.INSTALLING

    @property
    def words(self) -> str:
        """One sentence for everybody: no word of pip's is in it."""
        match self.phase:
            case Phase.READY:
                return "Spark is ready."
            case Phase.FAILED:
                return "Spark could not be fetched."
            case Phase.WAITING:
                return "Spark is being fetched beside another console."
            case Phase.DOWNLOADING if self.total >= _MB:
                of = f"{self.done // _MB} of {round(self.total / _MB)} MB of {self.package}"
                return f"Spark is being fetched: {of}."
            case Phase.DOWNLOADING if not self.package:
                return "Spark is being fetched: its packages are looked for."
        return f"Spark is being fetched: {self.phase} {self.package or 'its packages'}."


def write(state: Path, progress: Progress) -> None:
    """In one step: a reader sees the old or the new one. Raises ``OSError``."""
    path = _path(state)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        draft.touch(mode=0o600)
        draft.write_bytes(msgspec.json.encode(progress))
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def forget(state: Path) -> None:
    """Nothing where there is none."""
    _path(state).unlink(missing_ok=True)


def read(state: Path) -> Progress | None:
    """What is true now: ``None`` where nothing was begun, its ``make run`` has ended, or the fetch died on the way."""
    try:
        found: Progress = msgspec.json.decode(_path(state).read_bytes(), type=prepared(Progress))
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    if not found.beside.is_there() or (found.goes_on and not found.fetch.is_there()):
        return None
    return found


def _path(state: Path) -> Path:
    return state / "run" / "spark.json"
