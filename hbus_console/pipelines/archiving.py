"""A run of the archive over this installation's topics, each on the store that carries it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from engine.bus import BusConfig
from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput
from engine.pipeline.archive.archiving import Archived, Archiver, Execute, Progress
from engine.pipeline.lake.errors import Superseded
from engine.pipeline.source.opening import SPOOL
from hbus_console.database import in_batches
from hbus_console.pipelines.ledger_archiving import LedgerArchived, LedgerArchiver
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.services import reread_on
from hbus_console.pipelines.spools import has_spool, spool_config, spool_what_waits, spooled_on, unspooled_of
from hbus_console.pipelines.the_lake import lake, remember_lake
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: How often one run begins where another comes first every time.
TRIES = 5
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")
#: Told of a topic that cannot be read, and why.
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ArchiveRun:
    """What came of a run."""

    #: Of each store that carries topics of it.
    stores: Sequence[Archived]
    ledger: LedgerArchived


def wanted_topics(names: Sequence[str]) -> list[Topic]:
    """Those of the archived topics that are named, or all. Raises :class:`BadInput` for one that is not archived."""
    rows = ArchivedTopic.objects.select_related("topic").order_by("topic__name")
    found = [row.topic for row in rows if not names or row.topic.name in names]
    if missing := sorted(set(names) - {topic.name for topic in found}):
        raise BadInput(
            f"{missing[0]} is not archived.",
            remedy="Have it archived first: `manage.py archive on TOPIC --reason …`, or on the page Archive.",
            field="topic",
        )
    return found


def _beside_others(run: Callable[_Given, _Made], /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
    for _ in range(TRIES - 1):
        # The job and a person may archive at once: whoever came second has lost nothing but its work.
        with suppress(Superseded):
            return run(*args, **kwargs)
    return run(*args, **kwargs)


def _sources(topic: Topic, warn: Warn) -> list[str]:
    """Where it is read: its transport, its spool, or both where it was moved from one that has none."""
    again = reread_on(topic)
    found = [again] if again else []
    if has_spool(topic.name):
        found.append(SPOOL)
    elif not found and not spooled_on(topic):
        warn(f"The messages of {topic.name} are not archived any further: its transport keeps nothing over a restart.")
    return found


def _config_of(source: str) -> BusConfig:
    return spool_config() if source == SPOOL else bus.config(source)


def _is_read_whole(topic: Topic) -> bool:
    """Whether a run that begins now puts all of it into the lake that is there. Not where some of it waits to be
    spooled, where a transport keeps nothing, and while it moves, for then it is read from one of two."""
    if len(topic.carriers) > 1:
        return False
    return unspooled_of(topic) == 0 if spooled_on(topic) else bool(reread_on(topic))


def run_archive(
    topics: Sequence[Topic],
    execute: Execute,
    *,
    cores: int = 2,
    progress: Progress = lambda done, total: None,
    warn: Warn = lambda said: None,
    between: Callable[[], None] = lambda: None,
    clock: Clock | None = None,
) -> ArchiveRun:
    """What these hold now, and what the ledger tells of them, that the lake has not.

    ``between`` is called between two pages of the ledger; what it raises ends the run. Raises as
    :meth:`~engine.pipeline.archive.archiving.Archiver.run` and
    :meth:`~hbus_console.pipelines.ledger_archiving.LedgerArchiver.run`; what was committed before that counts.

    Where another run came first with a topic, this one begins again with what that one left, :data:`TRIES` times at
    most: what it had committed until then is in the lake, and not in what is told.
    """
    begun_ms = (clock or SystemClock()).now_ms()
    spool_what_waits(topics, warn)
    whole = [topic for topic in topics if _is_read_whole(topic)]
    by_source = [(source, topic.name) for topic in topics for source in _sources(topic, warn)]
    stores = [
        _beside_others(
            Archiver(lake(), _config_of(source), execute, cores=cores).run,
            [name for each, name in by_source if each == source],
            progress,
        )
        for source in dict.fromkeys(source for source, _ in by_source)
    ]
    archived = list(ArchivedTopic.objects.values_list("topic__name", flat=True))
    ledger = _beside_others(LedgerArchiver(lake(), archived, between).run, [topic.name for topic in topics])
    remember_lake()
    for batch in in_batches([topic.pk for topic in whole]):
        ArchivedTopic.objects.filter(topic__in=batch, archived_upto_ms__lt=begun_ms).update(archived_upto_ms=begun_ms)
    return ArchiveRun(stores, ledger)
