"""The handler threads of a consumer: as many as wanted now, and one more for each that hangs and was given up."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from engine.bus.consuming.feed import Feed
from engine.bus.consuming.threads import RestartingThread
from engine.bus.consuming.worker import Worker
from engine.core.clock import Clock

#: A handler that runs for longer than this, and than its lease, is shown as hung, in seconds.
HUNG_S = 30.0
#: How much of a hung handler's stack is shown, counted from where it is.
FRAMES = 12
#: Seconds between two looks for handlers that have taken longer than they may, at most.
WATCH_S = 1.0


@dataclass(frozen=True)
class Hung:
    """A handler that does not return. Its lease is renewed all the same: nobody else is given its message."""

    message_id: str
    position: str
    attempt: int
    running_s: float
    #: Where it is: file, line and function of each call, without any values.
    stack: tuple[str, ...]
    #: Its message was given up and is tried again elsewhere; only the thread is left.
    given_up: bool = False


class WorkerPool:
    """Thread-safe."""

    def __init__(
        self,
        size: int,
        *,
        recruit: Callable[[], Worker],
        thread_for: Callable[[str, Callable[[], None]], RestartingThread],
        feed: Feed,
        clock: Clock,
        lease_s: float,
        max_handler_s: float,
        stop: threading.Event,
    ) -> None:
        self._recruit = recruit
        self._thread_for = thread_for
        self._feed = feed
        self._clock = clock
        self._hung_s = max(HUNG_S, lease_s)
        self._max_handler_s = max_handler_s
        self._stop = stop
        self._lock = threading.Lock()
        self._number = 0
        self._started = False
        self._members: list[tuple[Worker, RestartingThread]] = []
        self._given_up: list[tuple[Worker, RestartingThread]] = []
        #: How many threads are wanted.
        self.size = size
        with self._lock:
            self._hire(size)

    def start(self) -> None:
        with self._lock:
            self._started = True
            for _, thread in self._members:
                thread.start()

    def resize(self, size: int) -> None:
        """Be that many from now on. Who is too many ends when its handler does; nothing in hand is dropped."""
        with self._lock:
            change, self.size = size - self.size, size
            if change > 0:
                self._prune()
                self._hire(change)
            elif change < 0:
                self._feed.dismiss(-change)

    def close(self, until: float) -> None:
        """Let all end once the rest is taken; waits for their handlers up to that monotonic time."""
        with self._lock:
            members = list(self._members)
        self._feed.close(len(members))
        for _, thread in members:
            self._clock.wait(thread.ended, until - self._clock.monotonic())

    def running(self) -> int:
        """How many handlers run now."""
        count = 0
        for worker, _ in self._members:
            if worker.running is not None:
                count += 1
        return count

    def oldest_s(self, now: float) -> float:
        """For how long the oldest running handler has been at it."""
        return max((now - worker.begun for worker, _ in self._members if worker.running is not None), default=0.0)

    def hung(self, now: float) -> tuple[Hung, ...]:
        """Those that do not return, the given-up ones included."""
        with self._lock:
            self._prune()
            found = [(*one, False) for one in self._members] + [(*one, True) for one in self._given_up]
        frames: dict[int, object] = {}
        hung = []
        for worker, thread, given_up in found:
            held, ran_s = worker.at_work, now - worker.begun
            if held is None or (ran_s < self._hung_s and not given_up):
                continue
            frames = frames or dict(sys._current_frames())
            hung.append(
                Hung(
                    held.message.id if held.message else "",
                    held.delivery.position,
                    held.attempt,
                    ran_s,
                    _stack(frames.get(thread.ident or 0)),
                    given_up,
                )
            )
        return tuple(hung)

    def watch(self) -> None:
        """The loop that gives up handlers which take longer than they may."""
        while not self._clock.wait(self._stop, min(WATCH_S, self._max_handler_s / 4)):
            now = self._clock.monotonic()
            for worker, thread in list(self._members):
                if worker.running is None or now - worker.begun < self._max_handler_s:
                    continue
                if worker.give_up(now - worker.begun):
                    with self._lock:
                        self._members.remove((worker, thread))
                        self._given_up.append((worker, thread))
                        self._hire(1)

    def _hire(self, number: int) -> None:
        for _ in range(number):
            worker = self._recruit()
            thread = self._thread_for(f"worker-{self._number}", worker.run)
            self._number += 1
            # Replaced, never changed: it is read without the lock.
            self._members = [*self._members, (worker, thread)]
            if self._started:
                thread.start()

    def _prune(self) -> None:
        self._members = [one for one in self._members if not one[1].ended.is_set()]
        self._given_up = [one for one in self._given_up if not one[1].ended.is_set()]


def _stack(frame: object) -> tuple[str, ...]:
    if frame is None:
        return ()
    # Names and places only: values may be somebody's personal data.
    frames = traceback.extract_stack(frame, limit=None)[-FRAMES:]  # type: ignore[arg-type]
    return tuple(f"{each.filename.rpartition('/')[2]}:{each.lineno} {each.name}" for each in frames)
