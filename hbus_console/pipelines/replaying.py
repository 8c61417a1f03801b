"""What the archive has of a span of a topic, and the way to read it again.

What it tells comes from the lake's state, and no file is read for it, or by a process of its own: pages may ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.pipeline.lake.state import Kind, LakeState
from engine.pipeline.replay.sampling import SpanSample, sample
from engine.pipeline.replay.span import ReplaySpan, SpanTold, files_in, told_of
from hbus_console.pipelines.standing import Standings
from hbus_console.pipelines.the_lake import lake
from hbus_console.topics.models import Topic

if TYPE_CHECKING:
    from engine.pipeline.replay.reading import SpanReader


@dataclass(frozen=True, slots=True)
class ArchiveReach:
    """From when to when the archive has messages of a topic, by when they were stored, epoch milliseconds."""

    first_ms: int
    upto_ms: int


@dataclass(frozen=True, slots=True)
class ArchivedSpan:
    """A part of a topic, as the archive has it."""

    told: SpanTold
    #: ``None``: it has nothing of the topic.
    reach: ArchiveReach | None
    #: Whether more of the topic is put into it.
    goes_on: bool
    #: How many wait for that; ``None`` where the store does not say.
    waiting: int | None


def reach_of(topic: str) -> ArchiveReach | None:
    """``None`` where the archive has nothing of it. Raises ``LakeDamaged``."""
    return _reach(lake().state(), topic)


def archived_span(topic: Topic, span: ReplaySpan) -> ArchivedSpan:
    """What is known of it without reading a file. Asks the topic's store what waits. Raises ``LakeDamaged``."""
    state = lake().state()
    standings = Standings(state)
    goes_on = standings.of(topic).archived
    waiting = standings.waiting(topic).messages if goes_on else None
    return ArchivedSpan(told_of(state, span), _reach(state, topic.name), goes_on, waiting)


def _reach(state: LakeState, topic: str) -> ArchiveReach | None:
    files = state.files_of(topic, kind=Kind.MESSAGES)
    if not files:
        return None
    return ArchiveReach(min(file.first_ms for file in files), max(file.last_ms for file in files))


def messages_in(span: ReplaySpan) -> int:
    """How many messages it has at most, keys left aside. Raises ``LakeDamaged``."""
    return told_of(lake().state(), span).most


def sample_of(span: ReplaySpan, most: int) -> SpanSample:
    """The newest messages of it, at most so many: a process of its own reads them, so pages may ask.

    Raises ``LakeDamaged``, and ``Unavailable`` where that takes too long.
    """
    found = lake()
    return sample(found.root, span, files_in(found.state(), span), most)


def open_span(span: ReplaySpan) -> SpanReader:
    """Its messages. It brings pyarrow, a hundred megabytes, into the process: no page may call it."""
    # So whoever imports this module does without.
    from engine.pipeline.replay.reading import SpanReader

    return SpanReader(lake(), span)
