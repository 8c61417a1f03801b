"""What a driver tells, about once a second, on the pipe that it was given: how far its application is.

It may cost no more than a share of the driver's time, holds nothing up, and where it cannot be done says so once.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import time
from threading import Event, Lock, Thread
from typing import Any

from engine.core.error_text import text_of
from engine.cron.work.spark.looking import SparkLook
from engine.cron.work.spark.python_error import python_error

#: Between two looks, in seconds: at least, and so many times as long as a look took, up to the most.
EVERY_S, TIMES, MOST_S = 1.0, 20, 30.0
#: How long the end of an application waits for its last telling, in seconds.
LAST_S = 2.0
#: Of what it says why it cannot tell, in characters.
_TROUBLE = 500


class Telling:
    """One for a driver. None of its methods raises what is wrong with the telling."""

    def __init__(self, pipe: str) -> None:
        self._name = pipe
        self._pipe = -1
        self._look: SparkLook | None = None
        #: One looks at a time: the thread, or the end of the application.
        self._looking = Lock()
        self._ends = Event()
        #: What was written last is no whole line.
        self._broken = False
        #: How it stood last, and what it failed of: told with the last of all.
        self._said: dict[str, Any] = {}
        self._failure = ""
        self._in_trouble = False

    def start(self) -> None:
        """Imports PySpark: an application that does so itself finds it whole."""
        try:
            self._pipe = os.open(self._name, os.O_WRONLY | os.O_NONBLOCK)
            self._look = SparkLook()
            self._tell_before_stop(self._look)
        except Exception as error:  # noqa: BLE001 - it is said, and the application runs
            self._trouble(error)
            return
        # Behind what the application itself has to do at its end.
        atexit.register(self._finish)
        Thread(target=self._run, name="hbus-progress", daemon=True).start()

    def failed(self, error: Exception) -> None:
        """What the application failed of, with its traceback."""
        try:
            self._failure = python_error(error)
            if self._look is None and self._pipe >= 0:
                self._write({"failure": self._failure})
        except Exception as worse:  # noqa: BLE001 - it is said, and the application ends as it would
            self._trouble(worse)

    def _finish(self) -> None:
        self._ends.set()
        self._tell(last=True)

    def _run(self) -> None:
        pause_s = EVERY_S
        while not self._ends.wait(pause_s):
            began = time.perf_counter()
            self._tell()
            pause_s = min(max(EVERY_S, TIMES * (time.perf_counter() - began)), MOST_S)

    def _tell(self, *, last: bool = False) -> None:
        if self._look is None or not self._looking.acquire(timeout=LAST_S):
            return
        try:
            said = self._look.said(flush=last)
            if said is not None:
                self._said = said
            if said is not None or self._failure:
                self._write({**self._said, "failure": self._failure})
        except Exception as error:  # noqa: BLE001 - it is said, and the application runs
            self._trouble(error)
        finally:
            self._looking.release()

    def _write(self, said: dict[str, Any]) -> None:
        """A line, for as long as there is somebody to read it."""
        line = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        rest = memoryview(b"\n" + line if self._broken else line)
        until = time.monotonic() + LAST_S
        while rest and time.monotonic() < until:
            try:
                rest = rest[os.write(self._pipe, rest) :]
            except BlockingIOError:
                time.sleep(0.01)
            except BrokenPipeError:
                return
        self._broken = bool(rest)

    def _tell_before_stop(self, look: SparkLook) -> None:
        """Once it has stopped, Spark has forgotten all of it."""
        # Only where Spark is installed.
        from pyspark import SparkContext

        stop = SparkContext.stop

        @functools.wraps(stop)
        def told(context: SparkContext) -> None:
            if context is SparkContext._active_spark_context:
                self._tell(last=True)
                look.leave(context)
            stop(context)

        SparkContext.stop = told

    def _trouble(self, error: Exception) -> None:
        if self._in_trouble:
            return
        self._in_trouble = True
        words = text_of(error, _TROUBLE).partition("\n")[0]
        print(f"hbus: how far this application is cannot be told: {words}", file=sys.stderr, flush=True)
