"""The lake rolled up into the database. It brings what reads files: no page imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.errors import NotThere
from engine.core.resolution import Resolution
from engine.cron.work.call import RunContext
from engine.pipeline.audit.tasks import ExecuteSides, in_threads
from engine.pipeline.rollup.rolling import RolledDay, Roller
from engine.pipeline.rollup.series import SeriesCounts
from hbus_console.database import in_batches
from hbus_console.evidence.router import LEDGER
from hbus_console.pipelines.models import ArchivedTopic, RolledUp, SeriesPoint
from hbus_console.pipelines.the_lake import lake
from hbus_console.ui.formats import counted

_COUNTS = SeriesCounts.__struct_fields__
_DAY_S = 86_400


@dataclass(slots=True)
class RolledLake:
    """What came of a roll-up."""

    #: Days that were rolled up, by topic.
    days: dict[str, int] = field(default_factory=dict)
    #: Points that are other than before.
    points: int = 0
    #: Files that nobody had read before.
    files: int = 0


def roll_up(
    topics: Sequence[str] = (),
    *,
    execute: ExecuteSides | None = None,
    go_on: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> RolledLake:
    """Make the points of all days of the lake that are not as they were; of these topics alone, where some are named.

    Each day is written whole or not at all, and none twice, however often it is tried. Raises ``NotThere`` for a topic
    that the lake does not have, and as :meth:`~engine.pipeline.rollup.rolling.Roller.run`.
    """
    now = to_datetime((clock or SystemClock()).now_ms())
    # Before the lake is read: what is archived meanwhile may not be in what is read of it.
    marks = _archived_upto(topics)
    state = lake().state()
    for topic in topics:
        if topic not in state.topics:
            raise NotThere(f"The lake has nothing of {topic}.", remedy="Is it archived?", field="topic")
    known = {(topic, date): digest for topic, date, digest in RolledUp.objects.values_list("topic", "date", "digest")}

    def resolutions(date: str) -> list[Resolution]:
        kept = {
            Resolution.MINUTE: settings.HBUS_SERIES_MINUTE_DAYS,
            Resolution.HOUR: settings.HBUS_SERIES_HOUR_DAYS,
        }
        return [each for each in Resolution if each not in kept or date > _days_ago(kept[each])]

    def _days_ago(days: int) -> str:
        return (now - timedelta(days=days)).date().isoformat()

    done = RolledLake()
    roller = Roller(lake(), execute or in_threads(), go_on=go_on)
    for day in roller.run(known, topics or None, resolutions):
        done.points += write_day(day, resolutions(day.date), round(now.timestamp() * 1000))
        done.days[day.topic] = done.days.get(day.topic, 0) + 1
        done.files += day.read
    for upto_ms, names in marks.items():
        for batch in in_batches(names):
            ArchivedTopic.objects.filter(topic__name__in=batch, rolled_upto_ms__lt=upto_ms).update(
                rolled_upto_ms=upto_ms
            )
    return done


def _archived_upto(topics: Sequence[str]) -> dict[int, list[str]]:
    """Topics by how far they are archived whole; mostly all were by one run. Of these alone, where some are named."""
    found: dict[int, list[str]] = {}
    for name, upto_ms in ArchivedTopic.objects.values_list("topic__name", "archived_upto_ms"):
        if upto_ms and (not topics or name in topics):
            found.setdefault(upto_ms, []).append(name)
    return found


def roll_up_all(context: RunContext) -> str:
    """One run of the job, until it is done or the run is to end; what came of it."""
    return told_of_rollup(roll_up(execute=in_threads(1), go_on=context.raise_if_stopped))


def told_of_rollup(done: RolledLake) -> str:
    """In one line."""
    if not done.days:
        return "Nothing was other than before."
    return (
        f"{counted(sum(done.days.values()), 'day')} of {counted(len(done.days), 'topic')}: {done.points:,} points"
        f" changed, {counted(done.files, 'file')} read."
    )


def write_day(day: RolledDay, resolutions: Sequence[Resolution], now_ms: int) -> int:
    """Have the points of a day be these, at ``resolutions``, and remember what they were made of; how many changed."""
    wanted = {
        (row.subscription, row.resolution.value, row.at): tuple(getattr(row.counts, name) for name in _COUNTS)
        for row in day.rows
    }
    start_s = day.start_s
    with transaction.atomic(using=LEDGER):
        RolledUp.objects.get_or_create(topic=day.topic, date=day.date, defaults={"at_ms": now_ms})
        # Two that write one day do so one after the other.
        mark = RolledUp.objects.select_for_update().get(topic=day.topic, date=day.date)
        points = SeriesPoint.objects.filter(
            topic=day.topic,
            resolution__in=[each.value for each in resolutions],
            at__gte=start_s,
            at__lt=start_s + _DAY_S,
        )
        there: dict[tuple[str, str, int], tuple[int, tuple[Any, ...]]] = {
            (row[1], row[2], row[3]): (row[0], row[4:])
            for row in points.values_list("pk", "subscription", "resolution", "at", *_COUNTS)
        }
        gone = [pk for name, (pk, _) in there.items() if name not in wanted]
        for batch in in_batches(gone):
            SeriesPoint.objects.filter(pk__in=batch).delete()
        changed = [name for name, counts in wanted.items() if name not in there or there[name][1] != counts]
        SeriesPoint.objects.bulk_create(
            [
                SeriesPoint(
                    topic=day.topic,
                    subscription=subscription,
                    resolution=resolution,
                    at=at,
                    **dict(zip(_COUNTS, wanted[subscription, resolution, at], strict=True)),
                )
                for subscription, resolution, at in changed
            ],
            batch_size=500,
            update_conflicts=True,
            unique_fields=["topic", "subscription", "resolution", "at"],
            update_fields=_COUNTS,
        )
        mark.digest, mark.at_ms = day.digest, now_ms
        mark.save()
    return len(gone) + len(changed)
