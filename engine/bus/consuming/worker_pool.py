"""The handler threads of a consumer: as many as are wanted, and who takes the place of one that hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.bus.consuming.hung import HUNG_S, Hung
from engine.bus.consuming.scope import ConsumerScope, RestartingThread
from engine.bus.consuming.worker import Crew, Worker

#: Seconds between two looks for handlers that have taken longer than they may, at most.
WATCH_S = 1.0


class WorkerPool(Crew):
    """As many threads as are wanted now, and one more for each that hangs and was given up. Thread-safe."""

    def __init__(self, scope: ConsumerScope, recruit: Callable[[], Worker]) -> None:
        super().__init__()
        self._scope = scope
        self._recruit = recruit
        self._clock = scope.clock
        self._hung_s = max(HUNG_S, scope.policy.lease_s)
        self._max_handler_s = scope.policy.max_handler_s
        self._lock = threading.Lock()
        self._number = 0
        self._started = False
        self._given_up: list[tuple[Worker, RestartingThread]] = []
        #: How many threads are wanted.
        self.size = scope.policy.concurrency

    def start(self) -> None:
        with self._lock:
            self._started = True
            self._hire(self.size)

    def resize(self, size: int) -> None:
        """Be that many from now on. Who is too many ends when its handler does; nothing in hand is dropped."""
        with self._lock:
            change, self.size = size - self.size, size
            if self._started and change > 0:
                self._prune()
                self._hire(change)
            elif self._started:
                self._scope.dispatcher.dismiss(-change)

    def close(self, until: float) -> None:
        """Let all end once the rest is taken; waits for their handlers up to that monotonic time."""
        with self._lock:
            members = list(self.members)
        self._scope.dispatcher.close(len(members))
        for _, thread in members:
            self._clock.wait(thread.ended, until - self._clock.monotonic())

    def failing(self, now: float) -> tuple[str, ...]:
        """Names of the threads that break again and again."""
        return tuple(thread.name for _, thread in self.members if thread.failing(now))

    def oldest_s(self, now: float) -> float:
        """For how long the oldest running handler has been at it."""
        return max((now - call[1] for worker, _ in self.members if (call := worker.call) is not None), default=0.0)

    def hung(self, now: float) -> tuple[Hung, ...]:
        """Those that do not return, the given-up ones included."""
        with self._lock:
            self._prune()
            found = [(*one, False) for one in self.members] + [(*one, True) for one in self._given_up]
        hung = []
        for worker, thread, given_up in found:
            held, begun = worker.call or (None, now)
            if held is not None and (given_up or now - begun >= self._hung_s):
                hung.append(Hung.shown(held, now - begun, thread.ident or 0, given_up=given_up))
        return tuple(hung)

    def watch(self) -> None:
        """The loop that gives up handlers which take longer than they may."""
        while not self._clock.wait(self._scope.stop, min(WATCH_S, self._max_handler_s / 4)):
            now = self._clock.monotonic()
            for worker, thread in list(self.members):
                call = worker.call
                if call is None or now - call[1] < self._max_handler_s:
                    continue
                if worker.give_up(call, now - call[1]):
                    with self._lock:
                        self.members = [one for one in self.members if one[0] is not worker]
                        self._given_up.append((worker, thread))
                        self._hire(1)

    def _hire(self, number: int) -> None:
        for _ in range(number):
            worker = self._recruit()
            thread = self._scope.thread(f"worker-{self._number}", worker.run)
            self._number += 1
            self.members = [*self.members, (worker, thread)]
            thread.start()

    def _prune(self) -> None:
        self.members = [one for one in self.members if not one[1].ended.is_set()]
        self._given_up = [one for one in self._given_up if not one[1].ended.is_set()]
