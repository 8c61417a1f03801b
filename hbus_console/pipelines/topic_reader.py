"""The archive as a reader of topics: what a transport that one leaves holds is archived before it is removed there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from engine.bus import Extent, Rereads
from engine.core.error_text import words_of
from engine.core.errors import HbusError
from engine.pipeline.archive.leaving import forget_logs
from engine.pipeline.source.planning import counted_together, plan
from engine.pipeline.spool.spooling import GROUP, can_be_spooled, make_group
from hbus_console.pipelines.feature import JOB
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.the_lake import lake
from hbus_console.registry.reading import TopicReader
from hbus_console.wiring import bus

_log = structlog.get_logger(__name__)


@contextmanager
def _logged(topic: str) -> Iterator[None]:
    """A store or a lake that is away ends the block, and the log says so."""
    try:
        yield
    except (HbusError, OSError) as error:
        _log.warning("archive_not_told", topic=topic, error=words_of(error))


def _is_archived(topic: str) -> bool:
    return ArchivedTopic.objects.filter(topic__name=topic).exists()


def _prepare(topic: str, to: str) -> None:
    if can_be_spooled(bus.transport(to)) and _is_archived(topic):
        make_group(bus.transport(to), topic)


def _unread(topic: str, carrier: str) -> int | None:
    if not _is_archived(topic):
        return 0
    with _logged(topic):
        admin = bus.admin(carrier)
        if isinstance(admin, Rereads):
            return counted_together(plan(lake().state().reached(topic), admin.extents(topic)).portions)
        # What is spooled is archived wherever the topic is by then.
        return admin.lag(topic, GROUP).unsettled if can_be_spooled(bus.transport(carrier)) else 0
    return None


def _leave(topic: str, carrier: str, read: bool) -> Callable[[], None]:
    extents: Sequence[Extent] = []
    with _logged(topic):
        admin = bus.admin(carrier)
        # What is spooled stays the topic's, whoever carries it.
        extents = admin.extents(topic) if isinstance(admin, Rereads) else []
    return lambda: _forget(topic, extents, read)


def _forget(topic: str, extents: Sequence[Extent], read: bool) -> None:
    """A lake that is away keeps nobody from deleting a topic: should there be another of its name, it is told as a loss
    then that nobody knows what the first one had."""
    with _logged(topic):
        forget_logs(lake(), topic, extents, archived=read)


READER = TopicReader(
    name="archive",
    words="the archive",
    advice=f"The job {JOB} reads it, and of NSQ the keeper. Who does not want it archived stops archiving it before.",
    prepare=_prepare,
    unread=_unread,
    reads=_is_archived,
    leave=_leave,
)
