"""Threads that never die unseen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.core.clock import Clock

#: Seconds before a loop that broke is started again.
RESTART_S = 1.0

_log = logging.getLogger(__name__)


class RestartingThread:
    """Runs ``loop`` until it returns. If it raises, that is logged and reported, and it is started again after a
    second, unless ``stop`` is set."""

    def __init__(
        self,
        name: str,
        loop: Callable[[], None],
        *,
        stop: threading.Event,
        clock: Clock,
        report: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.ended = threading.Event()
        self._loop = loop
        self._stop = stop
        self._clock = clock
        self._report = report
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ident(self) -> int | None:
        """The interpreter's number of the thread, once it runs."""
        return self._thread.ident

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def died(self) -> bool:
        """Gone without having been asked to."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stop.is_set()

    def _run(self) -> None:
        try:
            while True:
                try:
                    self._loop()
                    return
                except BaseException as error:  # noqa: BLE001
                    # Nothing may end a duty of a consumer silently, not even a SystemExit.
                    _log.exception("%s broke and is started again", self.name)
                    self._report(error)
                    if self._clock.wait(self._stop, RESTART_S):
                        return
        finally:
            self.ended.set()
