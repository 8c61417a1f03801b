"""Live pages: one poller per process reads how things stand; every open stream gets what its actor may see.

A stream carries events named ``standing``: ``{"texts": {key: text}, "stale": why, "of": ms, "changed": [name]}``, one
with each look, so that a page that hears none knows that it is behind. ``of`` is when the look began: what a page read
later than that is newer than the texts.

**Texts** are single figures, put in place as they are. Their keys are those of the ``data-live`` attributes; the
features bring them, each its own (:class:`LiveCells`): ``published`` stands by itself (what belongs to it has ``/note``
or ``/unit`` behind it), ``topic/NAME/rate`` in a row; inside a ``data-live-row="topic/NAME"`` the end of a key
(``/rate``) will do. A text is what the server would have rendered.

**Changed** names what else moved since the event before, see :mod:`~hbus_console.ui.changes`. A page says in its block
``shows`` of which names it tells; when one of them changed, live.js fetches the page's own address again and puts the
answer in place. So what is live is what a reload would show, for it is the same view and the same template.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import structlog
from django.db import DatabaseError

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.numbers import whole
from hbus_console.database import bound_statements, fresh_connections
from hbus_console.parts import Fault, log_fault
from hbus_console.registry.asking import ask
from hbus_console.registry.declaration import Feature
from hbus_console.ui.changes import Changes, Marks, Scopes, merged
from hbus_console.ui.polling import one_poll

#: Seconds between two looks; the keeper books and samples more slowly than this.
POLL_S = 2.0
#: Seconds of silence after which a comment shows that the stream lives, and the actor's rights are looked up again.
COMMENT_S = 15.0
#: Seconds a stream lasts; the browser then connects again by itself.
LIFE_S = 300.0
#: Streams one person may hold open.
MOST_STREAMS = 12
#: Seconds without an answer to anything that a look asks, while somebody listens, after which the poller is told to
#: stand still. However many answers a look waits for, and however slowly they come, it moves with each.
STILL_S = 30.0
#: Seconds after which one statement of a look has failed, as where it waits for a lock: no other process would get it.
STATEMENT_S = 10.0
#: What pages say of themselves after a look that failed.
UNREAD = "How things stand could not be read just now; it is tried again."

Texts = Mapping[str, str]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class LiveCells:
    """What moves on open pages, as one feature tells it.

    Rows belong to several features: each has columns of its own. So that a cell does not keep an old text when its
    feature has nothing to say of a row any more, ``blank`` says what stands there as long as another tells of the row.
    """

    texts: Texts = field(default_factory=dict)
    #: A row, such as ``topic/booking.created``, and its texts by column, such as ``rate``.
    rows: Mapping[str, Texts] = field(default_factory=dict)
    #: A kind of row, such as ``topic``, and the text of each of the feature's columns in a row it does not name.
    blank: Mapping[str, Texts] = field(default_factory=dict)
    #: Why the figures are old, if they are.
    stale: str = ""
    #: What pages show beside these texts, each with a token that differs when it may have changed.
    marks: Marks = field(default_factory=dict)


class Faults:
    """What was wrong with the features at the last look: it is logged when it begins, not every two seconds."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._now: set[str] = set()

    def tell(self, fault: Fault) -> None:
        said = f"{fault.part}: {fault.words}"
        self._now.add(said)
        if said not in self._known:
            log_fault(fault)

    def end_look(self) -> None:
        self._known, self._now = self._now, set()


def cells(
    now_ms: int,
    scopes: Scopes,
    tell: Callable[[Fault], object] = log_fault,
    moved: Callable[[], object] = lambda: None,
) -> list[LiveCells]:
    """What every feature tells now in what ``scopes`` let one see; a feature's mistake is told, and said to be stale.

    ``moved`` is called before each of their answers. Raises what a database that is away raises.
    """

    def live(feature: Feature) -> Iterator[str]:
        for dotted in feature.live:
            moved()
            yield dotted

    answers = ask(live, now_ms, scopes, tell=tell)
    found: list[LiveCells] = list(answers.found)
    if answers.silent:
        found.append(LiveCells(stale=f"The figures of {', '.join(answers.silent)} cannot be read; the log says why."))
    return found


def event(told: Iterable[LiveCells]) -> dict[str, object]:
    """The data of one ``standing`` event, without what changed."""
    told = list(told)
    texts = {key: text for part in told for key, text in part.texts.items()}
    for row in {row for part in told for row in part.rows}:
        kind = row.partition("/")[0]
        for part in told:
            columns = part.rows.get(row, part.blank.get(kind, {}))
            texts |= {f"{row}/{column}": text for column, text in columns.items()}
    reasons = list(dict.fromkeys(part.stale for part in told if part.stale))
    # One feature may say with more words what another says as well.
    stale = [why for why in reasons if not any(why != other and why in other for other in reasons)]
    return {"texts": texts, "stale": " ".join(stale)}


Look = Callable[[int, Scopes], Iterable[LiveCells]]


@dataclass(frozen=True)
class Tick:
    """One look: its number (the event id, epoch milliseconds) and, for each set of scopes, the event's data as JSON."""

    number: int
    data: dict[Scopes, str]
    #: When it had ended, by the monotonic clock.
    at_s: float = 0.0


class TooManyStreams(Exception):
    """The person holds as many streams as one may."""


class Hub:
    """The poller of one event loop and the streams it feeds. Polls only while somebody listens.

    A stream that waits holds nothing but a future of its own, which each tick resolves: whatever becomes of one, at
    whatever instant its tab closes, no other waits for it, and the poller for none.
    """

    def __init__(self, look: Look | None = None, clock: Clock | None = None, poll_s: float = POLL_S) -> None:
        self._faults = Faults()
        self._look = look or partial(cells, tell=self._faults.tell, moved=self._move)
        self._clock = clock or SystemClock()
        self._poll_s = poll_s
        self._listeners: Counter[Scopes] = Counter()
        self._people: Counter[int] = Counter()
        self._waiting: set[asyncio.Future[None]] = set()
        self._tick = Tick(0, {})
        self._moved_s = 0.0
        self._changes = Changes()
        self._task: asyncio.Task[None] | None = None
        # A thread of its own, so that its database connections are opened once and never shared.
        self._thread = ThreadPoolExecutor(1, "hbus-live", bound_statements, (STATEMENT_S,))

    def full(self, person: int) -> bool:
        """Whether ``person`` holds as many streams as one may."""
        return self._people[person] >= MOST_STREAMS

    @contextmanager
    def seat(self, person: int) -> Iterator[None]:
        """Counts a stream of ``person``, from within it: one that never begins is not counted for ever.

        Raises :class:`TooManyStreams`.
        """
        if self.full(person):
            raise TooManyStreams
        self._people[person] += 1
        try:
            yield
        finally:
            self._people[person] -= 1
            if self._people[person] <= 0:
                del self._people[person]

    def still_s(self) -> float:
        """For how many seconds nothing has been answered that a look asks for somebody. Thread-safe."""
        return self._clock.monotonic() - self._moved_s if self._listeners else 0.0

    async def stream(
        self, scopes: Scopes, last_id: str, still_allowed: Callable[[], Awaitable[bool]], life_s: float = LIFE_S
    ) -> AsyncGenerator[str]:
        """Events for ``scopes`` as text/event-stream, from the first that is not ``last_id``, for ``life_s`` seconds.

        The first names what changed since ``last_id``: the id of an event, or the epoch milliseconds at which a page
        began to be read. Without one it names nothing.

        Every :data:`COMMENT_S` it asks ``still_allowed`` and ends when the answer is no.
        """
        ends = self._clock.monotonic() + life_s
        checked = self._clock.monotonic()
        if not self._listeners:
            self._moved_s = checked
        self._listeners[scopes] += 1
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
                    since = whole(seen)
                    changed = [] if since is None else self._changes.since(since, scopes)
                    seen = str(tick.number)
                    # What all streams share was spelt once, beside the loop: it may be long.
                    data = f'{tick.data[scopes][:-1]}, "changed": {json.dumps(changed)}}}'
                    yield f"id: {seen}\nevent: standing\ndata: {data}\n\n"
        finally:
            self._listeners[scopes] -= 1
            if self._listeners[scopes] <= 0:
                del self._listeners[scopes]

    async def _next(self, seen: str, scopes: Scopes) -> Tick | None:
        """The next tick that has these scopes, or ``None`` after one poll's time."""
        self._start()
        if (tick := self._fresh(scopes)) and str(tick.number) != seen:
            return tick
        ticked = asyncio.get_running_loop().create_future()
        self._waiting.add(ticked)
        try:
            # Not wait_for: until Python 3.12 it may swallow that the stream was cancelled, and with a lock under it
            # lose that for everybody.
            await asyncio.wait({ticked}, timeout=self._poll_s)
        finally:
            self._waiting.discard(ticked)
        return self._fresh(scopes) if ticked.done() else None

    def _fresh(self, scopes: Scopes) -> Tick | None:
        """The last tick, unless it is from so long ago that who opens a page now has newer figures."""
        tick = self._tick
        return tick if scopes in tick.data and self._clock.monotonic() - tick.at_s <= COMMENT_S else None

    def _start(self) -> None:
        """Whoever waits looks after the poller: none may wait for one that is dead."""
        if self._task is not None and not self._task.done():
            return
        if self._task is not None and (self._task.cancelled() or self._task.exception()):
            error = None if self._task.cancelled() else self._task.exception()
            _log.error("the poller of live figures died and is started anew", error=repr(error) if error else "")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="hbus-live")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._listeners:
            wanted = list(self._listeners)
            began_ms = self._clock.now_ms()
            try:
                found = await loop.run_in_executor(self._thread, self._read, began_ms, wanted)
            except DatabaseError as error:
                _log.warning("live figures not read", error=words_of(error))
                found = _unread(began_ms, wanted)
            except Exception as error:  # noqa: BLE001 - the poller is everybody's, and nobody awaits it
                self._faults.tell(Fault("live figures", error))
                found = _unread(began_ms, wanted)
            self._tell(found)
            self._faults.end_look()
            await asyncio.sleep(self._poll_s)
        # Whoever listens next has newer figures on the page.
        self._tick = Tick(self._tick.number, {})

    def _tell(self, found: Mapping[Scopes, tuple[str, Marks | None]]) -> None:
        # By its end: what changed while it looked may be in it, and is named to who read a page before that.
        number = max(self._clock.now_ms(), self._tick.number + 1)
        for scopes, (_, marks) in found.items():
            if marks is not None:
                self._changes.note(number, scopes, marks)
        self._move()
        self._tick = Tick(number, {scopes: data for scopes, (data, _) in found.items()}, self._moved_s)
        for ticked in self._waiting:
            if not ticked.done():
                ticked.set_result(None)

    def _read(self, now_ms: int, wanted: list[Scopes]) -> dict[Scopes, tuple[str, Marks | None]]:
        found: dict[Scopes, tuple[str, Marks | None]] = {}
        with fresh_connections(), one_poll():
            for scopes in wanted:
                told = list(self._look(now_ms, scopes))
                found[scopes] = json.dumps({**event(told), "of": now_ms}), merged(part.marks for part in told)
                self._move()
        return found

    def _move(self) -> None:
        self._moved_s = self._clock.monotonic()


def _unread(began_ms: int, wanted: Iterable[Scopes]) -> dict[Scopes, tuple[str, Marks | None]]:
    """What a look that failed tells; what changed meanwhile, the next one that does not."""
    data = json.dumps({**event([LiveCells(stale=UNREAD)]), "of": began_ms})
    return dict.fromkeys(wanted, (data, None))


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running loop: a process has one loop, so it has one poller."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        found = _hubs[loop] = Hub()
    return found


def trouble() -> str:
    """Why the pages of this process do not follow, in a few words; empty when they do. Thread-safe."""
    still_s = max((each.still_s() for each in list(_hubs.values())), default=0.0)
    return f"has not looked for {still_s:.0f} s" if still_s > STILL_S else ""
