"""A subscription whose topic is leaving a transport: two consumers, on the new one and on the old one, seen as one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from engine.bus.consumer import Consumer, ConsumerStatus, Left


class Pair:
    """What the host needs of a consumer, done by both."""

    def __init__(self, arriving: Consumer, leaving: Consumer) -> None:
        self._arriving = arriving
        self._leaving = leaving

    def start(self) -> None:
        self._leaving.start()
        self._arriving.start()

    def stop(self, drain_s: float = 30.0) -> Left:
        """Both side by side, so that the grace counts once."""
        with ThreadPoolExecutor(2, thread_name_prefix="hbus-drain") as pool:
            one, other = pool.map(lambda consumer: consumer.stop(drain_s), (self._arriving, self._leaving))
        return Left(one.running + other.running, one.unsettled + other.unsettled, one.released + other.released)

    def pause(self) -> None:
        self._arriving.pause()
        self._leaving.pause()

    def resume(self) -> None:
        self._arriving.resume()
        self._leaving.resume()

    def set_concurrency(self, threads: int) -> None:
        self._arriving.set_concurrency(threads)
        self._leaving.set_concurrency(threads)

    def status(self) -> ConsumerStatus:
        """Sums; the state is that of the one that is worse off."""
        one, other = self._arriving.status(), self._leaving.status()
        worse = other if one.state in ("running", "paused") else one
        return replace(
            one,
            state=worse.state,
            in_flight=one.in_flight + other.in_flight,
            queued=one.queued + other.queued,
            unsettled=one.unsettled + other.unsettled,
            handled=one.handled + other.handled,
            failed=one.failed + other.failed,
            rate=one.rate + other.rate,
            loop_age_s=max(one.loop_age_s, other.loop_age_s),
            last_error=one.last_error or other.last_error,
            oldest_running_s=max(one.oldest_running_s, other.oldest_running_s),
            dead_threads=one.dead_threads + other.dead_threads,
            hung=one.hung + other.hung,
        )
