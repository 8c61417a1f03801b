"""How a breaker stands, what each act makes of it, and where the consumers of a subscription share that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Protocol

import msgspec
import redis

from engine.bus.transports.redis_stream.topic import checked
from engine.core.clock import Clock
from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.scripts import ScriptFolder
from engine.core.store.answered import answered
from engine.core.store.failures import AnswerLost

#: How long a consumer that probes may be silent before another may, in milliseconds.
PROBE_MS = 10_000
#: How long a closed breaker remembers how often it had opened, in milliseconds.
CLOSED_KEPT_MS = 86_400_000
#: The longest reason kept, in characters.
WHY_LIMIT = 500
#: How often an act is tried when others act at the same moment.
TRIES = 20

_LUA = files("engine.bus.consuming") / "lua"


class Standing(msgspec.Struct, frozen=True):
    """How a breaker stands. Times are epoch milliseconds of the board's clock."""

    #: ``closed``: deliveries flow; ``open``: none do; ``probing``: one consumer tries one message.
    state: str = "closed"
    #: When an open one is probed; 0 while a person keeps it open.
    until_ms: int = 0
    now_ms: int = 0
    #: How often it has opened in a row, each time for longer.
    opens: int = 0
    since_ms: int = 0
    why: str = ""
    prober: str = ""
    #: When another may take over from one that probes and says nothing more.
    prober_until_ms: int = 0
    #: Whether a person opened it; then only a person closes it.
    forced: bool = False
    #: Whether the act that was asked for changed the state.
    changed: bool = False

    @property
    def tried(self) -> int:
        """How many messages were tried since it opened, and failed, that had not failed before."""
        return max(0, self.opens - 1)

    @property
    def probe_due(self) -> bool:
        """Whether somebody may try a message now."""
        return self.state == "open" and not self.forced and self.now_ms >= self.until_ms


class Pauses(msgspec.Struct, frozen=True):
    """How long an opened breaker stays so: ``first_ms``, doubled each time it fails, at most ``longest_ms``; of that
    the ``share`` (0 to 1), which is where the jitter goes. Without ``grow`` it stays as long as it last was. In any
    case for ``least_ms``, of which somebody said that it takes as long, and no longer than ``longest_ms``."""

    first_ms: int
    longest_ms: int
    share: float = 1.0
    grow: bool = True
    least_ms: int = 0


#: For acts that open nothing.
NO_PAUSES = Pauses(0, 0)


class BreakerBoard(Protocol):
    """Thread-safe; every method raises ``Unavailable``, and answers how the breaker stands afterwards.

    ``AnswerLost`` where the act may have been done.
    """

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
        """The prober's message failed: open it again, for longer if ``pauses`` grow."""
        ...


def after(now: Standing, act: str, *, consumer: str = "", why: str = "", pauses: Pauses = NO_PAUSES) -> Standing:
    """How a breaker stands after ``act``: trip, probe, passed, failed, or a person's open, close or try.

    These are the only rules there are.
    """
    ours = now.state == "probing" and now.prober == consumer
    made = now
    if (act == "trip" and now.state == "closed") or (act == "failed" and ours):
        made = _opened(now, why, pauses)
    elif act == "probe":
        silent = now.state == "probing" and now.now_ms >= now.prober_until_ms
        if now.probe_due or silent or ours:
            until_ms = now.now_ms + PROBE_MS
            made = msgspec.structs.replace(now, state="probing", prober=consumer, prober_until_ms=until_ms)
    elif act == "passed" and ours:
        made = msgspec.structs.replace(now, state="closed", prober="", why="")
    elif act == "open":
        made = msgspec.structs.replace(now, state="open", until_ms=0, prober="", why=why[:WHY_LIMIT], forced=True)
    elif act == "try" and now.state == "open":
        # Still the same outage: how the one message ends decides, as if the pause were over.
        made = msgspec.structs.replace(now, until_ms=now.now_ms, forced=False)
    elif act == "close":
        made = msgspec.structs.replace(now, state="closed", opens=0, prober="", why=why[:WHY_LIMIT], forced=False)
    changed = made.state != now.state
    # From open to probing and back is one outage.
    since_ms = now.now_ms if changed and "closed" in (made.state, now.state) else now.since_ms
    return msgspec.structs.replace(made, since_ms=since_ms, changed=changed)


def _opened(now: Standing, why: str, pauses: Pauses) -> Standing:
    # Its pauses begin small again once it has been closed for longer than the longest of them.
    rested = now.state == "closed" and now.now_ms - now.since_ms > pauses.longest_ms
    opens = 0 if rested else now.opens if pauses.grow else max(0, now.opens - 1)
    pause_ms = int(min(pauses.longest_ms, pauses.first_ms * 2 ** min(opens, 30)) * pauses.share)
    pause_ms = max(pause_ms, min(pauses.least_ms, pauses.longest_ms))
    return msgspec.structs.replace(
        now, state="open", until_ms=now.now_ms + pause_ms, opens=opens + 1, why=why[:WHY_LIMIT], prober="", forced=False
    )


class _Board:
    """The acts of :class:`BreakerBoard`, for who can :meth:`_do` them."""

    def trip(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        return self._do(topic, group, lambda now: after(now, "trip", consumer=consumer, why=why, pauses=pauses))

    def probe(self, topic: str, group: str, consumer: str) -> Standing:
        return self._do(topic, group, lambda now: after(now, "probe", consumer=consumer))

    def passed(self, topic: str, group: str, consumer: str) -> Standing:
        return self._do(topic, group, lambda now: after(now, "passed", consumer=consumer))

    def failed(self, topic: str, group: str, consumer: str, why: str, pauses: Pauses) -> Standing:
        return self._do(topic, group, lambda now: after(now, "failed", consumer=consumer, why=why, pauses=pauses))

    def _do(self, topic: str, group: str, act: Callable[[Standing], Standing]) -> Standing:
        raise NotImplementedError


class RedisBreakers(_Board):
    """The board of an installation. Time is the store's, unless a ``clock`` is given."""

    def __init__(self, client: redis.Redis, prefix: str, clock: Clock | None = None) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock
        self._scripts = ScriptFolder(client, _LUA)

    def look(self, topic: str, group: str) -> Standing:
        return self._read(self._key(topic, group))[0]

    def force_open(self, topic: str, group: str, why: str) -> Standing:
        """A person opens it: nothing is delivered, and nobody probes, until :meth:`force_close`."""
        return self._do(topic, group, lambda now: after(now, "open", why=why))

    def force_close(self, topic: str, group: str, why: str) -> Standing:
        """A person closes it; new failures open it again."""
        return self._do(topic, group, lambda now: after(now, "close", why=why))

    def force_trial(self, topic: str, group: str) -> Standing:
        """A person lets one message be tried now: handled it closes an open breaker, failed it opens it again."""
        return self._do(topic, group, lambda now: after(now, "try"))

    def forget(self, topic: str, group: str) -> None:
        """It goes with its group: one of the same name that comes later has a closed one. Raises ``Unavailable``."""
        try:
            with answered():
                self._client.delete(self._key(topic, group))
        except redis.RedisError as error:
            raise Unavailable(f"The store refused: {words_of(error)}.", remedy="It is tried again.") from error

    def states(self, subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Those that are not closed, by topic and group, in one round trip."""
        return {subscription: now.state for subscription, now in self.not_closed(subscriptions).items()}

    def outages(self, subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Likewise, with since when; epoch milliseconds."""
        return {subscription: now.since_ms for subscription, now in self.not_closed(subscriptions).items()}

    def not_closed(self, subscriptions: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Standing]:
        """Likewise, with how they stand: state, since when, why, and whether a person opened them; no more."""
        if not subscriptions:
            return {}
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for topic, group in subscriptions:
                    pipeline.hmget(self._key(topic, group), "state", "since_ms", "why", "forced")
                found = pipeline.execute()
        except redis.RedisError as error:
            raise Unavailable(f"The store cannot be asked: {words_of(error)}.", remedy="It is tried again.") from error
        return {
            subscription: Standing(
                state=state.decode(),
                since_ms=int(since_ms or 0),
                why=(why or b"").decode(errors="replace"),
                forced=forced == b"1",
            )
            for subscription, (state, since_ms, why, forced) in zip(subscriptions, found, strict=True)
            if state and state != b"closed"
        }

    def _key(self, topic: str, group: str) -> str:
        return f"{self._prefix}:{{{checked(topic, 'topic')}}}:breaker:{checked(group, 'group')}"

    def _do(self, topic: str, group: str, act: Callable[[Standing], Standing]) -> Standing:
        key = self._key(topic, group)
        for _ in range(TRIES):
            now, revision = self._read(key)
            made = act(now)
            if made == now or self._write(key, made, revision):
                return made
        raise Unavailable(f"The breaker of {topic}/{group} changes all the time.", remedy="It is tried again.")

    def _read(self, key: str) -> tuple[Standing, int]:
        """How it stands, and what :meth:`_write` has to know of it."""
        try:
            now_ms, *fields = self._asked("breaker_read", key, [self._clock.now_ms() if self._clock else ""])
        except AnswerLost as error:
            # A question: nothing was done.
            raise Unavailable(error.what, remedy=error.remedy) from error
        state, until_ms, opens, since_ms, why, prober, prober_until_ms, forced, revision = fields
        standing = Standing(
            state=state.decode() if state else "closed",
            until_ms=int(until_ms or 0),
            now_ms=int(now_ms),
            opens=int(opens or 0),
            since_ms=int(since_ms or now_ms),
            why=(why or b"").decode(errors="replace"),
            prober=(prober or b"").decode(),
            prober_until_ms=int(prober_until_ms or 0),
            forced=forced == b"1",
        )
        return standing, int(revision or 0)

    def _write(self, key: str, made: Standing, revision: int) -> bool:
        """``False`` when somebody has written since it was read."""
        fields: dict[str, str | int] = {
            "state": made.state,
            "until_ms": made.until_ms,
            "opens": made.opens,
            "since_ms": made.since_ms,
            "why": made.why,
            "prober": made.prober,
            "prober_until_ms": made.prober_until_ms,
            "forced": int(made.forced),
        }
        keep_ms = CLOSED_KEPT_MS if made.state == "closed" else 0
        pairs: list[str | int] = [part for pair in fields.items() for part in pair]
        return bool(self._asked("breaker_write", key, [revision, keep_ms, *pairs]))

    def _asked(self, script: str, key: str, args: Sequence[str | int]) -> Any:
        try:
            return self._scripts.call(script, [key], args)
        except redis.RedisError as error:
            # A store whose disk is full answers, and refuses.
            raise Unavailable(f"The store refused: {words_of(error)}.", remedy="It is tried again.") from error


class LocalBoard(_Board):
    """The board of one process: for libraries that run alone, and while the shared one cannot be reached."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._standing: dict[tuple[str, str], Standing] = {}

    def look(self, topic: str, group: str) -> Standing:
        with self._lock:
            return self._now(topic, group)

    def _do(self, topic: str, group: str, act: Callable[[Standing], Standing]) -> Standing:
        with self._lock:
            now = self._now(topic, group)
            made = self._standing[topic, group] = act(now)
            return made

    def _now(self, topic: str, group: str) -> Standing:
        # Counted on the monotonic clock: a step of the wall clock must not hold deliveries back.
        now_ms = round(self._clock.monotonic() * 1000)
        known = self._standing.get((topic, group)) or Standing(since_ms=now_ms)
        return msgspec.structs.replace(known, now_ms=now_ms, changed=False)
