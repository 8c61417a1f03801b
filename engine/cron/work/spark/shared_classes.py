"""Spark's classes as Java has them in memory, in a file: a start that is given it reads hardly any from their jars.

A start asks for the file where there is none and goes on without; whoever has the time makes it, out of a start of its
own.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.core.error_text import words_of
from engine.cron.work.call import LastCall, RunCall, RunContext
from engine.cron.work.commands import GRACE_S, STOOD_STILL, Program, run_program
from engine.cron.work.folder_lock import lock_folder, unlock_folder
from engine.cron.work.log_spool import LogSpool
from engine.cron.work.spark.installed import InstalledSpark
from engine.cron.work.spark.java import Java
from engine.cron.work.spark.scratch import scratch_folder
from engine.cron.work.spark.submit import DEFAULTS, PLACES_OF_CONF, environment

#: What a start does while it is watched.
_COMMON = Path(__file__).with_name("common_start.py")
_MADE, _WANTED, _FAILED = ".classes", ".wanted", ".failed"

_log = logging.getLogger(__name__)


class SharedClasses:
    """A folder, closed to others: what is in it is taken for code. Thread-safe, and safe between processes.

    A file is void with another Java or Spark, or where one of its jars is another: it is not taken then, and goes when
    the next is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def options(self, spark: InstalledSpark) -> list[str]:
        """What Java is told to take it by; none where it is not there, which is asked for with that. Never raises: a
        start goes well without."""
        if os.pathsep in str(self._folder):
            # Java takes that for two files.
            return []
        try:
            name = _name(spark)
            for made in self._folder.glob(f"{name}.*{_MADE}"):
                # Of a file that was cut off since Java does not see it, and dies.
                if made.stat().st_size == int(made.stem.partition(".")[2]):
                    return [_taken_by(spark.java, made)]
            if not (self._folder / f"{name}{_FAILED}").exists():
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                (self._folder / f"{name}{_WANTED}").touch(mode=0o600)
        except OSError as error:
            _log.warning("Spark starts without shared classes: %s", words_of(error))
        return []

    @property
    def wanted(self) -> bool:
        """Whether a start has asked for one since."""
        return any(self._folder.glob(f"*{_WANTED}"))

    def make(self, spark: InstalledSpark, scratch: Path, within_s: float) -> None:
        """Where it is wanted and nobody else is at it: at a low priority, by a start of Spark in a folder of its
        own in ``scratch``, which ends with this process. What is void goes.

        Where that fails, the log says why, and it is not tried again. Raises ``OSError``.
        """
        with self._alone() as alone:
            if not alone:
                return
            name = _name(spark)
            for old in self._folder.iterdir():
                if old.name.partition(".")[0] != name:
                    old.unlink()
            wanted = self._folder / f"{name}{_WANTED}"
            if not wanted.exists():
                return
            if why := self._make(spark, name, scratch, within_s):
                _log.warning("Spark's classes cannot be shared, and it starts without: %s", why)
                (self._folder / f"{name}{_FAILED}").write_text(f"{why}\n", encoding="utf-8")
            wanted.unlink()

    def _make(self, spark: InstalledSpark, name: str, scratch: Path, within_s: float) -> str:
        """Why that failed; empty: it is there, whole."""
        with scratch_folder(scratch, "classes") as folder:
            draft, master = folder / "classes", "local[2]"
            log = LogSpool(folder / "log", 0, 0)
            context = RunContext(RunCall(0, "shared-classes", 0, 0, 0, ""), log)
            asked = time.monotonic() + within_s
            context.last_call = LastCall(asked, asked + GRACE_S)
            words = [
                *("nice", "-n", "10", str(spark.submit), "--master", master),
                *(word for name, value in DEFAULTS.items() for word in ("--conf", f"{name}={value}")),
                *(str(_COMMON), str(folder / "table")),
            ]
            # Of the thousands of classes that it leaves out it would say so, of each.
            options = [_made_by(spark.java, draft), "-Xlog:all=error"]
            outcome = run_program(context, Program(words, folder, environment(spark, master, folder, options)))
            errors = [line for line in log.read(last=True).splitlines() if "[error]" in line]
            log.close()
            if not outcome.done or not draft.exists():
                why = f"it took more than {within_s:.0f} s" if outcome.reason == STOOD_STILL else outcome.reason
                return "; ".join([why or "Java made none", *errors[:1]])
            draft.chmod(0o600)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(self._folder / f"{name}.{draft.stat().st_size}{_MADE}")
            return ""

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        try:
            held = lock_folder(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            unlock_folder(held)


def _name(spark: InstalledSpark) -> str:
    """Of the file that holds for this Java, this Spark, and where it looks for classes."""
    java = spark.java.home
    files = [java / "release", java / "lib" / "modules", *sorted((spark.home / "jars").iterdir())]
    seen = [f"{file} {stat.st_size} {stat.st_mtime_ns}" for file in files if (stat := _stat(file)) is not None]
    seen += [f"{name}={os.environ.get(name, '')}" for name in PLACES_OF_CONF]
    return hashlib.sha256("\n".join([spark.java.version, *seen]).encode()).hexdigest()[:32]


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def _taken_by(java: Java, made: Path) -> str:
    return f"-XX:{'AOTCache' if java.caches_ahead else 'SharedArchiveFile'}={made}"


def _made_by(java: Java, made: Path) -> str:
    return f"-XX:{'AOTCacheOutput' if java.caches_ahead else 'ArchiveClassesAtExit'}={made}"
