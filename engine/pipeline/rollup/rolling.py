"""Rolls a lake up: of each day of each topic that is not as it was when it was rolled up last, all its series."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from engine.core.resolution import Resolution
from engine.pipeline.audit.looking import SideReader
from engine.pipeline.audit.sides import sweep_sides
from engine.pipeline.audit.tasks import ExecuteSides, in_threads
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Kind, LakeState
from engine.pipeline.rollup.days import TopicDay, dates_back, days_of
from engine.pipeline.rollup.series import SeriesRow
from engine.pipeline.rollup.summing import DaySides, series_of


@dataclass(frozen=True, slots=True)
class RolledDay:
    """All series of one day, to stand in place of whatever was known of it."""

    topic: str
    date: str
    #: See :attr:`~engine.pipeline.rollup.days.TopicDay.digest`.
    digest: str
    #: When it begins, seconds since the epoch.
    start_s: int
    rows: list[SeriesRow]
    #: Files that had to be read for it.
    read: int


@dataclass(frozen=True, slots=True)
class Roller:
    """Of one lake. It holds nothing: who calls it keeps what it makes, and the digests with it."""

    lake: Lake
    execute: ExecuteSides = field(default_factory=in_threads)
    #: Called between two files; what it raises ends it.
    go_on: Callable[[], None] = lambda: None

    def run(
        self,
        known: Mapping[tuple[str, str], str],
        topics: Collection[str] | None = None,
        resolutions: Callable[[str], Collection[Resolution]] = lambda date: tuple(Resolution),
    ) -> Iterator[RolledDay]:
        """Each day whose digest is not the one that is ``known`` by its topic and date; of ``topics`` alone, where some
        are named. A day that the lake has no more is passed over: what was made of it stays true.

        ``resolutions`` says which are wanted of a date. Raises as
        :meth:`~engine.pipeline.audit.looking.SideReader.look`.
        """
        state = self.lake.state()
        due = [
            day
            for day in days_of(state)
            if (topics is None or day.topic in topics) and known.get((day.topic, day.date)) != day.digest
        ]
        states = state.by_topic({day.topic for day in due})
        for day in due:
            self.go_on()
            yield self._rolled(day, states[day.topic], resolutions(day.date))
        if due:
            sweep_sides(self.lake)

    def _rolled(self, day: TopicDay, state: LakeState, resolutions: Collection[Resolution]) -> RolledDay:
        # Nothing is settled in it: nobody asks when it was published.
        dates = dates_back(day.date) if day.of_kind(Kind.DELIVERIES) else []
        before = [
            [file for kind in (Kind.PUBLISHED, Kind.MESSAGES) for file in state.files_of(day.topic, date, date, kind)]
            for date in dates
        ]
        wanted = {file.path: file for files in (day.files, *before) for file in files}
        looked = SideReader(self.lake, self.execute, go_on=self.go_on).look(list(wanted.values()))
        sides = DaySides(
            day.start_s,
            messages=[looked.sides[file.path] for file in day.of_kind(Kind.MESSAGES)],
            published=[looked.sides[file.path] for file in day.of_kind(Kind.PUBLISHED)],
            deliveries=[looked.sides[file.path] for file in day.of_kind(Kind.DELIVERIES)],
            before=[[looked.sides[file.path] for file in files] for files in before],
        )
        return RolledDay(day.topic, day.date, day.digest, day.start_s, series_of(sides, resolutions), looked.computed)
