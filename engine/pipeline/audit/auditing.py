"""One audit of some topics: sides are computed where they are missing, put together, and what differs is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from engine.core.errors import BadInput, NotThere
from engine.pipeline.audit.closing import closed_ms, is_told
from engine.pipeline.audit.copying import CopiesInLake, copied_of, copies_in
from engine.pipeline.audit.fitting import Fitting, PayloadRules
from engine.pipeline.audit.gathering import gather
from engine.pipeline.audit.history import TopicHistory, history_of
from engine.pipeline.audit.judging import TopicFound, judge
from engine.pipeline.audit.looking import SideReader
from engine.pipeline.audit.matching import match
from engine.pipeline.audit.ordering import look_through, parts_of
from engine.pipeline.audit.report import Report, TopicAudit
from engine.pipeline.audit.resting import is_at_rest
from engine.pipeline.audit.scope import MINUTE_MS, MOST, Scope, window_of
from engine.pipeline.audit.sides import SIDES, Side, sweep_sides
from engine.pipeline.audit.summing import SKEW_MS
from engine.pipeline.audit.tasks import ExecuteSides, in_threads
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Kind, LakeFile, LakeState, date_of

_DAY_MS = 86_400_000

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class TopicKnown:
    """What the lake does not say of a topic, as far as somebody knows it."""

    #: Since when each subscription has been there, epoch milliseconds. One that is not named here is looked for from
    #: the first message on that it has had.
    subscriptions: Mapping[str, int] = field(default_factory=dict)
    #: The sources that may publish; ``None``: any.
    producers: Collection[str] | None = None
    #: See :func:`~engine.pipeline.audit.closing.closed_ms`.
    complete_ms: int = 0
    #: Subscriptions that are done, as the store says, with all that was stored before the moment of each, so long ago
    #: that whoever lives has told of it. Epoch milliseconds.
    drained: Mapping[str, int] = field(default_factory=dict)
    #: What its payloads are held to; ``None``: nothing.
    payloads: PayloadRules | None = None


@dataclass(frozen=True, slots=True)
class Auditor:
    """Audits topics of one lake."""

    lake: Lake
    execute: ExecuteSides = field(default_factory=in_threads)
    #: Ranges compared at once; each takes some hundred megabytes.
    cores: int = 2
    #: How many messages a finding names.
    samples: int = 5
    #: Called between two steps; what it raises ends the audit.
    go_on: Callable[[], None] = lambda: None

    def run(
        self,
        topics: Sequence[str],
        from_ms: int | None = None,
        to_ms: int | None = None,
        *,
        window_ms: int | None = None,
        known: Mapping[str, TopicKnown] | None = None,
    ) -> Report:
        """What happened from one moment to below another; from the first message, and to the last that can be judged,
        unless said. Sides that are computed stay, and those of files that count no more are swept.

        Raises :class:`BadInput` naming the field, :class:`NotThere` for a topic that the lake does not have,
        :class:`~engine.pipeline.lake.errors.LakeDamaged`, ``OSError``, and what ``execute`` and ``go_on`` raise.
        """
        state = self.lake.state()
        for topic in topics:
            if topic not in state.topics:
                raise NotThere(f"The lake has nothing of {topic}.", remedy="Is it archived?", field="topic")
        history = history_of(self.lake, self.lake.root / SIDES)
        known, states = known or {}, state.by_topic(topics)
        scopes = {
            topic: _scopes(of_it, topic, (from_ms, to_ms, window_ms), known.get(topic, TopicKnown()))
            for topic, of_it in states.items()
        }
        files = {topic: _files(of_it, topic, scopes[topic][0]) for topic, of_it in states.items()}
        wanted = [file for of_topic in files.values() for of_kind in of_topic.values() for file in of_kind]
        looked = SideReader(self.lake, self.execute, self.cores, self.go_on).look(wanted, history)
        first_ms = min((scopes[topic][0].from_ms for topic in topics), default=0)
        # A copy is stored after what it is of; clocks of two logs differ.
        copies = copies_in(self.lake.root, state, date_of(max(0, first_ms - _DAY_MS)), self.go_on)
        found: list[TopicAudit] = []
        for topic in topics:
            of_topic = {kind: [looked.sides[file.path] for file in of_kind] for kind, of_kind in files[topic].items()}
            about = known.get(topic, TopicKnown())
            found.append(
                self._audit(
                    states[topic],
                    topic,
                    scopes=scopes[topic],
                    sides=of_topic,
                    known=about,
                    history=history.of(topic),
                    copies=copies,
                )
            )
        sweep_sides(self.lake)
        return Report(state.version, found, len(wanted), looked.computed)

    def _audit(
        self,
        state: LakeState,
        name: str,
        *,
        scopes: Sequence[Scope],
        sides: Mapping[Kind, Sequence[Side]],
        known: TopicKnown,
        history: TopicHistory,
        copies: CopiesInLake,
    ) -> TopicAudit:
        unfit = {}
        if known.payloads is not None:
            unfit = Fitting(self.lake.root, known.payloads, self.go_on).look([it.file for it in sides[Kind.MESSAGES]])
        topic = gather(sides[Kind.MESSAGES], sides[Kind.PUBLISHED], sides[Kind.DELIVERIES], known.subscriptions)
        parts = parts_of(topic)
        ordered = self._side_by_side([partial(look_through, topic, part, len(parts)) for part in parts])
        producers = None if known.producers is None else frozenset(known.producers)
        done_ms = {
            name: max(known.subscriptions.get(name, 0), known.drained.get(name, 0)) for name in topic.subscriptions
        }
        for scope in scopes:
            matched = self._side_by_side(
                [partial(match, topic, scope, low, high, producers) for low, high in topic.ranges()]
            )
            if not scope.at_rest or is_at_rest(matched, ordered, done_ms, scopes[-1].closed_ms):
                break
        return judge(
            TopicFound(
                self.lake.root,
                state,
                name,
                topic,
                scope,
                matched,
                ordered,
                history,
                known.subscriptions,
                known.drained if scope.at_rest else {},
                self.samples,
                copied_of(topic, scope, copies),
                known.payloads,
                unfit,
            ),
            told=is_told(state, name),
        )

    def _side_by_side(self, steps: Sequence[Callable[[], Made]]) -> list[Made]:
        made = []
        with ThreadPoolExecutor(self.cores) as pool, _undone(pool):
            for step in [pool.submit(step) for step in steps]:
                self.go_on()
                made.append(step.result())
        return made


@contextmanager
def _undone(pool: ThreadPoolExecutor) -> Iterator[None]:
    """What was not begun is not begun any more where something raises."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _scopes(
    state: LakeState, topic: str, asked: tuple[int | None, int | None, int | None], known: TopicKnown
) -> list[Scope]:
    """As it is if nothing is awaited any more, where that may be; and as it is if something is."""
    closed = closed_ms(state, topic, known.complete_ms)
    scope = _scope(state, topic, asked, closed, at_rest=False)
    last = max((file.last_ms for file in state.files_of(topic)), default=0)
    is_all = scope.is_closed and (asked[1] is not None or last < scope.to_ms)
    if is_all or known.complete_ms <= closed or not is_told(state, topic):
        return [scope]
    return [_scope(state, topic, asked, known.complete_ms, at_rest=True), scope]


def _scope(
    state: LakeState, topic: str, asked: tuple[int | None, int | None, int | None], closed: int, *, at_rest: bool
) -> Scope:
    from_ms, to_ms, window_ms = asked
    files = [file for kind in (Kind.MESSAGES, Kind.PUBLISHED) for file in state.files_of(topic, kind=kind)]
    # A producer's clock may be off by so much, and not by more.
    start = min((file.first_ms - SKEW_MS for file in files), default=0) if from_ms is None else from_ms
    end = max((file.last_ms + SKEW_MS + 1 for file in files), default=0)
    end = max(start, min(end, closed - (0 if at_rest else SKEW_MS))) if to_ms is None else to_ms
    if from_ms is not None and to_ms is not None and from_ms >= to_ms:
        raise BadInput("The span ends before it begins.", remedy="Say a later end, or none.", field="to")
    length = window_of(max(end - start, 0)) if window_ms is None else window_ms
    if length < MINUTE_MS or (end - start) // length > 25 * MOST:
        raise BadInput(
            f"Windows of {length:,} ms do not fit a span of {end - start:,} ms.",
            remedy=f"Windows have a minute or more, and a span has at most {25 * MOST:,} of them.",
            field="window",
        )
    start = start // length * length if from_ms is None else start
    return Scope(start, max(start, end), closed, length, at_rest)


def _files(state: LakeState, topic: str, scope: Scope) -> dict[Kind, list[LakeFile]]:
    """A day more on both sides, for clocks differ; deliveries come however late."""
    first, last = date_of(max(0, scope.from_ms - _DAY_MS)), date_of(scope.to_ms + _DAY_MS)
    return {
        Kind.MESSAGES: state.files_of(topic, first, last),
        Kind.PUBLISHED: state.files_of(topic, first, last, Kind.PUBLISHED),
        Kind.DELIVERIES: state.files_of(topic, first, kind=Kind.DELIVERIES),
    }
