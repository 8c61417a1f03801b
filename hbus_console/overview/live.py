"""Live figures: one poller per process reads how things stand; every open stream gets what its actor may see.

A stream carries events named ``standing``: ``{"texts": {key: text}, "stale": why}``. The keys are those of the
``data-live`` attributes: ``published``, ``settled``, ``unsettled``, ``dead``, ``alerts``, ``handling`` (each also with
``/note`` or ``/unit`` where it has one), ``topic/NAME/rate|unsettled|dead`` and
``subscription/TOPIC/GROUP/rate|unsettled`` (that with ``/note``); inside a ``data-live-row="topic/NAME"`` the end of a
key (``/rate``) will do. A text is what the server would have rendered. app.js puts them in place and then fires
``hbus:live`` on the body, so that a fragment can be refreshed with ``hx-trigger="hbus:live from:body throttle:5s"``.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import structlog
from django.db import DatabaseError

from engine.core.clock import Clock, SystemClock
from hbus_console.database import fresh_connections
from hbus_console.traffic.standing import Standing, dead_note, handling, oldest, parts, standing
from hbus_console.ui import formats

#: Seconds between two looks; the keeper books and samples more slowly than this.
POLL_S = 2.0
#: Seconds of silence after which a comment shows that the stream lives, and the actor's rights are looked up again.
COMMENT_S = 15.0
#: Seconds a stream lasts; the browser then connects again by itself.
LIFE_S = 300.0
#: Streams one person may hold open.
MOST_STREAMS = 12
#: Evidence older than this is called old.
STALE_MS = 45_000

Scopes = tuple[str, ...]
Look = Callable[[int, Scopes], Standing]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Tick:
    """One look: its number (the event id) and, for each set of scopes, the event's data."""

    number: int
    data: dict[Scopes, str]


class TooManyStreams(Exception):
    """The person holds as many streams as one may."""


class Hub:
    """The poller of one event loop and the streams it feeds. Polls only while somebody listens."""

    def __init__(self, look: Look = standing, clock: Clock | None = None, poll_s: float = POLL_S) -> None:
        self._look = look
        self._clock = clock or SystemClock()
        self._poll_s = poll_s
        self._listeners: Counter[Scopes] = Counter()
        self._people: Counter[int] = Counter()
        self._changed = asyncio.Condition()
        self._tick = Tick(0, {})
        self._task: asyncio.Task[None] | None = None
        # A thread of its own, so that its database connections are opened once and never shared.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hbus-live")

    def admit(self, person: int) -> None:
        """Count a stream of ``person``; raises :class:`TooManyStreams`. Pair with :meth:`leave`."""
        if self._people[person] >= MOST_STREAMS:
            raise TooManyStreams
        self._people[person] += 1

    def leave(self, person: int) -> None:
        self._people[person] -= 1
        if self._people[person] <= 0:
            del self._people[person]

    async def stream(
        self, scopes: Scopes, last_id: str, still_allowed: Callable[[], Awaitable[bool]], life_s: float = LIFE_S
    ) -> AsyncIterator[str]:
        """Events for ``scopes`` as text/event-stream, from the first that is not ``last_id``, for ``life_s`` seconds.

        Every :data:`COMMENT_S` it asks ``still_allowed`` and ends when the answer is no.
        """
        ends = self._clock.monotonic() + life_s
        checked = self._clock.monotonic()
        self._listeners[scopes] += 1
        self._start()
        try:
            yield "retry: 3000\n\n"
            seen = last_id
            while (now := self._clock.monotonic()) < ends:
                if now - checked >= COMMENT_S:
                    if not await still_allowed():
                        return
                    checked = now
                    yield ": still here\n\n"
                tick = await self._next(seen, scopes)
                if tick is not None:
                    seen = str(tick.number)
                    yield f"id: {seen}\nevent: standing\ndata: {tick.data[scopes]}\n\n"
        finally:
            self._listeners[scopes] -= 1
            if self._listeners[scopes] <= 0:
                del self._listeners[scopes]

    async def _next(self, seen: str, scopes: Scopes) -> Tick | None:
        """The next tick that has these scopes, or ``None`` after one poll's time."""
        if scopes in self._tick.data and str(self._tick.number) != seen:
            return self._tick
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait(), self._poll_s)
            except TimeoutError:
                return None
        return self._tick if scopes in self._tick.data else None

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="hbus-live")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._listeners:
            wanted = list(self._listeners)
            try:
                data = await loop.run_in_executor(self._thread, self._read, wanted)
            except DatabaseError as error:
                _log.warning("live figures not read", error=str(error))
            else:
                self._tick = Tick(max(self._clock.now_ms(), self._tick.number + 1), data)
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(self._poll_s)

    def _read(self, wanted: list[Scopes]) -> dict[Scopes, str]:
        now_ms = self._clock.now_ms()
        with fresh_connections():
            return {scopes: json.dumps(event(self._look(now_ms, scopes), now_ms)) for scopes in wanted}


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running loop: a process has one loop, so it has one poller."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        found = _hubs[loop] = Hub()
    return found


def event(stand: Standing, now_ms: int) -> dict[str, object]:
    """The data of one ``standing`` event."""
    total = stand.now.total
    value, unit = handling(total.handler_us)
    texts = {
        "published": formats.rate(total.published),
        "settled": formats.rate(total.settled),
        "unsettled": formats.num(stand.unsettled),
        "unsettled/note": oldest(stand.oldest_ms, now_ms),
        "dead": formats.num(sum(stand.dead.values())),
        "dead/note": dead_note(stand.dead),
        "alerts": formats.num(len(stand.alerts)),
        "handling": value,
        "handling/unit": unit,
    }
    for topic in {*stand.now.topics, *stand.dead, *(name for name, _ in stand.lag)}:
        rates = stand.now.topics.get(topic)
        texts[f"topic/{topic}/rate"] = formats.rate(rates.published if rates else 0)
        texts[f"topic/{topic}/unsettled"] = formats.num(stand.unsettled_of(topic))
        texts[f"topic/{topic}/dead"] = formats.num(stand.dead.get(topic, 0))
    for topic, group in {*stand.now.subscriptions, *stand.lag}:
        settled = stand.now.subscriptions.get((topic, group))
        lag = stand.lag.get((topic, group))
        texts[f"subscription/{topic}/{group}/rate"] = formats.rate(settled.settled if settled else 0)
        texts[f"subscription/{topic}/{group}/unsettled"] = formats.num(lag.unsettled if lag else 0)
        texts[f"subscription/{topic}/{group}/unsettled/note"] = parts(lag) if lag else "nothing waits"
    return {"texts": texts, "stale": _stale(stand, now_ms)}


def _stale(stand: Standing, now_ms: int) -> str:
    """Why the figures are old, if they are: the keeper has stopped sampling."""
    newest = max((lag.at_ms for lag in stand.lag.values()), default=None)
    if newest is None or now_ms - newest < STALE_MS:
        return ""
    return f"No figure is newer than {formats.clock(newest)[:8]}: no keeper is sampling."
