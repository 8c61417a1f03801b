"""An expression in its time zone: the instants at which it fires.

Slots are found in wall time, span by span of one offset, and follow from the slot before alone: no reading of a clock
takes part, so every node finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from engine.cron.expression.every import Every, Never
from engine.cron.expression.offsets import Span, Zone, zone
from engine.cron.expression.parsing import Parsed, parse
from engine.cron.expression.pattern import DAY_S, Pattern
from engine.cron.expression.policy import FoldPolicy, GapPolicy

#: In every zone the wall has a date that Python's calendar can say from the one on and before the other.
_EARLIEST = round(datetime(1, 1, 3, tzinfo=UTC).timestamp())
_LATEST = round(datetime(9999, 1, 1, tzinfo=UTC).timestamp())
#: No zone changes its offset by more, in seconds (Samoa, 2011: a day).
_LARGEST_CHANGE_S = 2 * DAY_S


#: An instant, and the slot after it.
_Answered = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Slot:
    """One planned instant."""

    #: Seconds since the Unix epoch, UTC.
    at: int
    #: Seconds that the wall is ahead of UTC there.
    offset: int
    #: ``""``; ``gap``: its times were left out, and it runs when the gap ends; ``first`` or ``second``: its time
    #: stands on the wall twice, and this is the one.
    mark: str

    @property
    def utc(self) -> str:
        """As RFC 3339, to the second."""
        return datetime.fromtimestamp(self.at, tz=UTC).isoformat().replace("+00:00", "Z")

    @property
    def local(self) -> str:
        """What the wall shows, with its offset."""
        return datetime.fromtimestamp(self.at, tz=timezone(timedelta(seconds=self.offset))).isoformat()


class Schedule:
    """Compiled; immutable and thread-safe. Had by :func:`compile_schedule`."""

    __slots__ = (
        "_known",
        "_skip_second",
        "_take_gap",
        "_until_second",
        "_zone",
        "fields",
        "fold",
        "gap",
        "rule",
        "spec",
    )

    def __init__(self, spec: str, read: Parsed, of: Zone, gap: GapPolicy, fold: FoldPolicy) -> None:
        self.spec, self.rule, self.fields = spec, read.rule, read.fields
        self.gap, self.fold = gap, fold
        self._zone = of
        binds = isinstance(read.rule, Pattern) and not read.rule.keeps_spacing
        self._take_gap = binds and gap is GapPolicy.END
        self._skip_second = binds and fold is FoldPolicy.FIRST
        self._until_second = binds and fold is FoldPolicy.LAST
        #: The last two questions to :meth:`next_after` with their answers: a slot and the one behind it, which many
        #: jobs that share a schedule ask for alike. Replaced whole.
        self._known: tuple[_Answered, _Answered] = ((-1, None), (-1, None))

    @property
    def zone(self) -> str:
        return self._zone.name

    @property
    def asks_both_days(self) -> bool:
        """Whether day of the month and day of the week must both allow a day; one will do as a rule."""
        return isinstance(self.rule, Pattern) and self.rule.asks_both_days

    def after(self, at: int) -> Slot | None:
        """The first slot after the instant ``at`` (seconds UTC); none of ``@never``, nor after the year 9998.

        The first two days of the calendar, which has no wall in every zone, have none either.
        """
        if at >= _LATEST:
            return None
        at = max(at, _EARLIEST)
        if isinstance(self.rule, Every | Never):
            found = self.rule.after(at)
            return None if found is None or found >= _LATEST else Slot(found, self._zone.span(found).offset, "")
        slot = self._in_spans(self.rule, at + 1)
        return None if slot is None or slot.at >= _LATEST else slot

    def next_after(self, at: int) -> int | None:
        """The instant of :meth:`after`."""
        newest, older = self._known
        if newest[0] == at:
            return newest[1]
        if older[0] == at:
            return older[1]
        slot = self.after(at)
        found = None if slot is None else slot.at
        self._known = ((at, found), newest)
        return found

    def slots(self, after: int) -> Iterator[Slot]:
        """Each slot after the instant ``after``."""
        slot = self.after(after)
        while slot is not None:
            yield slot
            slot = self.after(slot.at)

    def _in_spans(self, pattern: Pattern, at: int) -> Slot | None:
        while True:
            span = self._zone.span(at)
            wall = at + span.offset
            if at == span.start and self._take_gap and span.wall_before < wall:
                left_out = pattern.next_from(span.wall_before)
                if left_out is not None and left_out < wall:
                    return Slot(at, span.offset, "gap")
            if self._skip_second and span.wall_before > wall:
                wall = span.wall_before
            found = pattern.next_from(wall)
            if found is None:
                return None
            end = span.end + span.offset
            if self._until_second and span.wall_after < end:
                end = span.wall_after
            if found < end:
                return Slot(found - span.offset, span.offset, _mark(span, found))
            # Until two days on the wall may show again what is before this search, and so may match: span by span. What
            # the spans behind that show is between it and ``found``, where nothing matches.
            again_until = wall - span.offset + _LARGEST_CHANGE_S
            at = span.end if span.end < again_until else max(span.end, found - span.offset - _LARGEST_CHANGE_S)


def _mark(span: Span, wall: int) -> str:
    if wall < span.wall_before:
        return "second"
    return "first" if span.wall_after <= wall else ""


def compile_schedule(
    spec: str,
    *,
    zone_name: str = "UTC",
    gap: GapPolicy = GapPolicy.END,
    fold: FoldPolicy = FoldPolicy.FIRST,
    job: str = "",
) -> Schedule:
    """The schedule of ``spec`` in ``zone_name``, unless it names its own with ``CRON_TZ=``.

    ``job`` is whose name spreads ``H``. Raises :class:`~engine.cron.expression.errors.BadExpression` and
    :class:`~engine.cron.expression.errors.UnknownZone`.
    """
    read = parse(spec, job)
    return Schedule(spec, read, read.zone or zone(zone_name), gap, fold)
