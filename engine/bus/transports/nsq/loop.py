"""The tornado loop on a thread of its own: pynsq lives there, and nothing on it ever blocks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tornado.ioloop import IOLoop

from engine.core.errors import Unavailable

T = TypeVar("T")

#: How long a call may take to get its turn, in seconds; every callback is short.
TURN_S = 5.0

_log = logging.getLogger(__name__)


class EventLoopThread:
    """Made with the transport, started with the first call, shared by all its receivers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: IOLoop | None = None
        self._thread: threading.Thread | None = None

    def post(self, work: Callable[[], None]) -> None:
        """Run ``work`` on the loop soon, in the order of posting; what it raises is logged."""
        self._running().add_callback(_logged, work)

    def call(self, work: Callable[[], T]) -> T:
        """Run ``work`` on the loop and return its result. Never call it from the loop."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is the caller's to handle
                done.set_exception(error)

        self._running().add_callback(run)
        try:
            return done.result(TURN_S)
        except TimeoutError as error:
            raise Unavailable(f"The NSQ loop did not turn for {TURN_S:g} s.", remedy="It is tried again.") from error

    def close(self) -> None:
        """End the loop and its thread. Idempotent; a later call starts another."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.add_callback(loop.stop)
            thread.join(TURN_S)

    def _running(self) -> IOLoop:
        with self._lock:
            if self._loop is None:
                started: Future[IOLoop] = Future()
                self._thread = threading.Thread(target=_run, args=(started,), name="hbus-nsq-loop", daemon=True)
                self._thread.start()
                self._loop = started.result(TURN_S)
            return self._loop


def _run(started: Future[IOLoop]) -> None:
    asyncio.set_event_loop(asyncio.new_event_loop())
    loop = IOLoop.current()
    loop.add_callback(started.set_result, loop)
    loop.start()
    inner: asyncio.AbstractEventLoop = loop.asyncio_loop  # type: ignore[attr-defined]
    reading = asyncio.all_tasks(inner)
    for task in reading:
        task.cancel()
    inner.run_until_complete(asyncio.gather(*reading, return_exceptions=True))
    loop.close(all_fds=True)


def _logged(work: Callable[[], None]) -> None:
    # tornado would log it as well, as an error of its own without saying whose.
    try:
        work()
    except Exception:  # noqa: BLE001 - and logged
        _log.exception("work on the NSQ loop failed")
