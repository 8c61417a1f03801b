"""Hosts the engine's consumers: keeps what runs in step with what is wanted, whatever is away meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of, words_of

#: Seconds between two looks at what is wanted.
RECONCILE_S = 2.0
#: Seconds a consumer may finish what it has in hand when its policy changes or its subscription goes.
CHANGE_DRAIN_S = 30.0
#: How many subscriptions one process holds well; measured, see docs/consumers.md.
HELD_MOST = 200

_log = structlog.get_logger(__name__)

#: (topic, group)
Key = tuple[str, str]


class Hosted(Protocol):
    """The part of :class:`engine.bus.consumer.Consumer` the host uses."""

    def start(self) -> None: ...
    def stop(self, drain_s: float = ...) -> Any: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def set_concurrency(self, threads: int) -> None: ...
    def status(self) -> Any: ...


@dataclass(frozen=True)
class Wanted:
    """One subscription as it should run here. Another ``version`` means: drain the old one and start anew."""

    version: tuple[Any, ...]
    paused: bool
    make: Callable[[], Hosted]
    #: Handler threads: changed while it runs.
    concurrency: int = 0


@dataclass
class _Running:
    version: tuple[Any, ...]
    consumer: Hosted
    paused: bool = False
    concurrency: int = 0


class SubscriptionHost:
    """Runs a reconcile loop in a thread of its own. Thread-safe.

    ``wanted`` tells what should run; when it fails (the database is away), what runs goes on. A consumer that cannot be
    started is tried again with the next look. Pauses and drains asked of this host alone last until it ends or
    :meth:`resume`; they come on top of those of the subscription itself.
    """

    def __init__(
        self,
        wanted: Callable[[], Mapping[Key, Wanted]],
        *,
        clock: Clock | None = None,
        reconcile_s: float = RECONCILE_S,
        change_drain_s: float = CHANGE_DRAIN_S,
    ) -> None:
        self._wanted = wanted
        self._clock = clock or SystemClock()
        self._reconcile_s = reconcile_s
        self._change_drain_s = change_drain_s
        self._running: dict[Key, _Running] = {}
        #: Stopped ones whose handlers may still run.
        self._ending: dict[Key, Hosted] = {}
        self._errors: dict[Key, str] = {}
        self._error = ""
        self._held: set[Key] = set()
        self._drained: set[Key] = set()
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._turned_ms = self._clock.now_ms()
        self._crowded = False

    def start(self) -> None:
        """Start the loop. The first look happens at once."""
        self._thread = threading.Thread(target=self._loop, name="hbus-host", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Take no new message from now on. Returns at once; safe inside a signal handler."""
        self._stopping.set()
        self._wake.set()

    def stop(self, drain_s: float) -> None:
        """Finish what is in hand within ``drain_s`` seconds, hand back the rest. Idempotent."""
        self.request_stop()
        with self._lock:
            running, self._running = self._running, {}
        _stop_all({key: entry.consumer for key, entry in running.items()}, drain_s)
        if self._thread is not None:
            # It may be draining what changed a moment ago; its leases run out if the process ends before.
            self._thread.join(0.5)

    def reconcile_soon(self) -> None:
        """Look now instead of with the next turn of the loop."""
        self._wake.set()

    def pause(self, keys: Callable[[Key], bool]) -> list[Key]:
        """Hold the chosen subscriptions on this host; what is in hand is finished. Returns which."""
        with self._lock:
            chosen = [key for key in self._running if keys(key)]
            self._held.update(chosen)
        self.reconcile_soon()
        return chosen

    def resume(self, keys: Callable[[Key], bool]) -> list[Key]:
        """End what :meth:`pause` and :meth:`drain` began on this host. Returns which."""
        with self._lock:
            chosen = [key for key in self._held | self._drained if keys(key)]
            self._held.difference_update(chosen)
            self._drained.difference_update(chosen)
        self.reconcile_soon()
        return chosen

    def drain(self, keys: Callable[[Key], bool]) -> list[Key]:
        """Finish what is in hand, hand back the rest and run the chosen ones no more on this host. Returns which."""
        with self._lock:
            chosen = [key for key in self._running if keys(key)]
            self._drained.update(chosen)
        self.reconcile_soon()
        return chosen

    @property
    def turned_ms(self) -> int:
        """When the loop last turned."""
        return self._turned_ms

    @property
    def error(self) -> str:
        """Why the last look failed; empty when it did not."""
        return self._error

    def statuses(self) -> dict[Key, Any]:
        """The consumers' own status, by subscription; one that was stopped is told of until its handlers have ended."""
        with self._lock:
            ending = {key: consumer.status() for key, consumer in self._ending.items()}
            running = {key: entry.consumer.status() for key, entry in self._running.items()}
        return ending | running

    def idle(self) -> dict[Key, str]:
        """Wanted subscriptions that do not run here, and why."""
        with self._lock:
            why = {
                key: "draining on this worker" if key in self._ending else "drained on this worker"
                for key in self._drained
            }
            return {**self._errors, **why}

    def reconcile(self) -> None:
        """One look: stop, start, change, pause and resume until what runs is what is wanted."""
        try:
            wanted = dict(self._wanted())
            self._error = ""
        except Exception as error:  # noqa: BLE001 - database, catalog, handlers: whatever it is, what runs goes on
            if not self._error:
                _log.warning("wanted subscriptions unknown; what runs goes on", error=words_of(error), exc_info=True)
            self._error = text_of(error)
            return
        with self._lock:
            self._drained &= wanted.keys()
            self._held &= wanted.keys()
            for key in self._drained:
                del wanted[key]
            outdated = {
                key: entry.consumer
                for key, entry in self._running.items()
                if key not in wanted or wanted[key].version != entry.version
            }
            for key in outdated:
                del self._running[key]
            self._ending.update(outdated)
            self._errors = {}
        _stop_all(outdated, self._change_drain_s, meanwhile=self._turned)
        with self._lock:
            self._ending = {key: left for key, left in self._ending.items() if left.status().in_flight}
        for key, want in wanted.items():
            self._bring_up(key, want)
        self._say_crowded()

    def _say_crowded(self) -> None:
        crowded, before = len(self._running) > HELD_MOST, self._crowded
        self._crowded = crowded
        if crowded and not before:
            _log.warning("more subscriptions than one process holds well", hosted=len(self._running), most=HELD_MOST)

    def _bring_up(self, key: Key, want: Wanted) -> None:
        entry = self._running.get(key)
        paused = want.paused or key in self._held
        try:
            if entry is None:
                entry = _Running(want.version, want.make(), paused, want.concurrency)
                if paused:
                    entry.consumer.pause()
                with self._lock:
                    if self._stopping.is_set():
                        return
                    entry.consumer.start()
                    self._running[key] = entry
                _log.info("subscription started", topic=key[0], group=key[1], paused=paused)
            else:
                if paused != entry.paused:
                    (entry.consumer.pause if paused else entry.consumer.resume)()
                    entry.paused = paused
                if want.concurrency != entry.concurrency:
                    entry.consumer.set_concurrency(want.concurrency)
                    entry.concurrency = want.concurrency
                    _log.info("threads changed", topic=key[0], group=key[1], concurrency=want.concurrency)
        except Exception as error:  # noqa: BLE001 - one that cannot start must not keep the others from it
            with self._lock:
                self._errors[key] = text_of(error)
            _log.warning("subscription not started", topic=key[0], group=key[1], error=words_of(error), exc_info=True)

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self.reconcile()
            self._turned()
            self._clock.wait(self._wake, self._reconcile_s)
            self._wake.clear()
        with self._lock:
            for entry in self._running.values():
                entry.consumer.pause()

    def _turned(self) -> None:
        self._turned_ms = self._clock.now_ms()


def _stop_all(consumers: Mapping[Key, Hosted], drain_s: float, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Stop side by side, so that the grace counts once and not once each; ``meanwhile`` is called every second."""
    if not consumers:
        return
    with ThreadPoolExecutor(len(consumers), thread_name_prefix="hbus-drain") as pool:
        stops: dict[Key, Future[Any]] = {
            key: pool.submit(consumer.stop, drain_s) for key, consumer in consumers.items()
        }
        while wait(stops.values(), timeout=1.0).not_done:
            meanwhile()
    for (topic, group), stop in stops.items():
        if error := stop.exception():
            _log.error("subscription did not stop in order", topic=topic, group=group, error=words_of(error))
        else:
            _log.info("subscription stopped", topic=topic, group=group)
