"""Where the consumers of a subscription share how its breaker stands."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import redis

from engine.bus.transports.redis_stream.keys import checked
from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.core.scripts import ScriptFolder

#: How long a consumer that probes may be silent before another may, in milliseconds.
PROBE_MS = 10_000

_LUA = Path(__file__).parent / "consuming" / "lua"


class Standing(msgspec.Struct, frozen=True):
    """How a breaker stands. Times are epoch milliseconds of the board's clock."""

    #: ``closed``: deliveries flow; ``open``: none do; ``probing``: one consumer tries one message.
    state: str = "closed"
    #: When an open one is probed; 0 while a person keeps it open.
    until_ms: int = 0
    now_ms: int = 0
    #: How often it has opened in a row.
    opens: int = 0
    since_ms: int = 0
    why: str = ""
    prober: str = ""
    #: Whether a person opened it; then only a person closes it.
    forced: bool = False
    #: Whether the act that was asked for changed the state.
    changed: bool = False

    @property
    def probe_due(self) -> bool:
        """Whether somebody may try a message now."""
        return self.state == "open" and not self.forced and self.now_ms >= self.until_ms


class Pauses(msgspec.Struct, frozen=True):
    """How long an opened breaker stays so: ``first_ms``, doubled each time it fails, at most ``longest_ms``; of that
    the ``share`` (0 to 1), which is where the jitter goes."""

    first_ms: int
    longest_ms: int
    share: float = 1.0


class BreakerBoard(Protocol):
    """Thread-safe; every method raises ``Unavailable``, and answers how the breaker stands afterwards."""

    def look(self, topic: str, group: str) -> Standing:
        """How it stands."""
        ...

    def trip(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        """Open it, if it is closed."""
        ...

    def probe(self, topic: str, group: str, consumer: str) -> Standing:
        """Begin (or go on) to probe, if its pause is over and no other consumer does: see ``prober``."""
        ...

    def passed(self, topic: str, group: str, consumer: str) -> Standing:
        """The prober's message was handled: close it."""
        ...

    def failed(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        """The prober's message failed: open it again, for longer."""
        ...


class RedisBreakers:
    """The board of an installation. Time is the store's, unless a ``clock`` is given."""

    def __init__(self, client: redis.Redis, prefix: str, clock: Clock | None = None) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock
        self._scripts = ScriptFolder(client, _LUA)

    def look(self, topic: str, group: str) -> Standing:
        return self._call("look", topic, group)

    def trip(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        return self._call("trip", topic, group, consumer, why=why, pauses=pauses)

    def probe(self, topic: str, group: str, consumer: str) -> Standing:
        return self._call("probe", topic, group, consumer)

    def passed(self, topic: str, group: str, consumer: str) -> Standing:
        return self._call("passed", topic, group, consumer)

    def failed(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        return self._call("failed", topic, group, consumer, why=why, pauses=pauses)

    def force_open(self, topic: str, group: str, why: str) -> Standing:
        """A person opens it: nothing is delivered, and nobody probes, until :meth:`force_close`."""
        return self._call("open", topic, group, why=why)

    def force_close(self, topic: str, group: str, why: str) -> Standing:
        """A person closes it; new failures open it again."""
        return self._call("close", topic, group, why=why)

    def states(self, subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Those that are not closed, by topic and group, in one round trip."""
        if not subscriptions:
            return {}
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for topic, group in subscriptions:
                    pipeline.hget(self._key(topic, group), "state")
                found = pipeline.execute()
        except redis.RedisError as error:
            raise Unavailable(f"The store cannot be asked: {error}.", remedy="It is tried again.") from error
        return {
            subscription: state.decode()
            for subscription, state in zip(subscriptions, found, strict=True)
            if state and state != b"closed"
        }

    def _key(self, topic: str, group: str) -> str:
        return f"{self._prefix}:{{{checked(topic, 'topic')}}}:breaker:{checked(group, 'group')}"

    def _call(
        self, act: str, topic: str, group: str, consumer: str = "", *, why: str = "", pauses: Pauses | None = None
    ) -> Standing:
        pauses = pauses or Pauses(0, 0)
        try:
            answer = self._scripts.call(
                "breaker",
                [self._key(topic, group)],
                [
                    act,
                    consumer,
                    self._clock.now_ms() if self._clock else "",
                    why[:500],
                    pauses.first_ms,
                    pauses.longest_ms,
                    f"{pauses.share:.4f}",
                    PROBE_MS,
                ],
            )
        except redis.RedisError as error:
            # A store whose disk is full answers, and refuses.
            raise Unavailable(f"The store refused: {error}.", remedy="It is tried again.") from error
        changed, state, until, now, opens, since, reason, prober, forced = answer
        return Standing(
            state=state.decode(),
            until_ms=int(until),
            now_ms=int(now),
            opens=int(opens),
            since_ms=int(since),
            why=reason.decode(errors="replace"),
            prober=prober.decode(),
            forced=bool(forced),
            changed=bool(changed),
        )


class LocalBoard:
    """The board of one process: for libraries that run alone, and while the shared one cannot be reached."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._standing: dict[tuple[str, str], Standing] = {}

    def look(self, topic: str, group: str) -> Standing:
        with self._lock:
            return msgspec.structs.replace(self._now(topic, group), changed=False)

    def trip(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        with self._lock:
            now = self._now(topic, group)
            return self._open(topic, group, now, why, pauses) if now.state == "closed" else now

    def probe(self, topic: str, group: str, consumer: str) -> Standing:
        with self._lock:
            now = self._now(topic, group)
            return self._set(topic, group, now, state="probing", prober=consumer) if now.probe_due else now

    def passed(self, topic: str, group: str, consumer: str) -> Standing:
        with self._lock:
            now = self._now(topic, group)
            if now.state != "probing":
                return now
            return self._set(topic, group, now, state="closed", prober="", why="", since_ms=now.now_ms)

    def failed(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        with self._lock:
            now = self._now(topic, group)
            return self._open(topic, group, now, why, pauses) if now.state == "probing" else now

    def _now(self, topic: str, group: str) -> Standing:
        # Counted on the monotonic clock: a step of the wall clock must not hold deliveries back.
        now_ms = round(self._clock.monotonic() * 1000)
        known = self._standing.get((topic, group)) or Standing(since_ms=now_ms)
        return msgspec.structs.replace(known, now_ms=now_ms, changed=False)

    def _open(self, topic: str, group: str, now: Standing, why: str, pauses: Pauses) -> Standing:
        rested = now.state == "closed" and now.now_ms - now.since_ms > pauses.longest_ms
        opens = 0 if rested else now.opens
        pause_ms = round(min(pauses.longest_ms, pauses.first_ms * 2 ** min(opens, 30)) * pauses.share)
        since_ms = now.now_ms if now.state == "closed" else now.since_ms
        return self._set(
            topic,
            group,
            now,
            state="open",
            until_ms=now.now_ms + pause_ms,
            opens=opens + 1,
            since_ms=since_ms,
            why=why,
            prober="",
        )

    def _set(self, topic: str, group: str, now: Standing, **changes: object) -> Standing:
        made = msgspec.structs.replace(now, **changes, changed=changes["state"] != now.state)
        self._standing[topic, group] = made
        return made
