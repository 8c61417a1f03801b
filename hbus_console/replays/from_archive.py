"""A replay of what the archive has: the same messages, whatever retention took from the topic since.

One message that the archive has twice, because its store was restored from a copy, is replayed once: the results of
the operation say which were. Who reads files needs pyarrow; only steps do, and no page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, Any

from engine.bus.message import Message
from engine.core.clock import to_rfc3339
from engine.pipeline.lake.errors import LakeDamaged
from engine.pipeline.replay.span import ReplaySpan
from hbus_console.access.permissions import Actor
from hbus_console.operations.kinds import Plan, PlanLine
from hbus_console.operations.models import OperationItem
from hbus_console.pipelines.replaying import ArchivedSpan, archived_span, messages_in, open_span
from hbus_console.replays.spec import Selection
from hbus_console.replays.target import ReplayTarget
from hbus_console.replays.walking import Found
from hbus_console.topics.models import Topic
from hbus_console.ui.formats import counted, num

if TYPE_CHECKING:
    from engine.pipeline.replay.reading import SpanReader

#: How what was looked at ends, of a dry run.
NONE_READ = "; none was read"
#: Asked whether the place takes anything at all.
_ANY = Message(id="any", source="/any", type="any")


class _Readers:
    """Spans that are being read, by their operations: a file is brought into order once, and not for every step."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: dict[int, SpanReader] = {}

    def take(self, operation_id: int) -> SpanReader | None:
        """It is the caller's alone until it is given back."""
        with self._lock:
            return self._kept.pop(operation_id, None)

    def give_back(self, operation_id: int, reader: SpanReader) -> None:
        with self._lock:
            other = self._kept.get(operation_id)
            self._kept[operation_id] = reader
        if other is not None:
            other.close()

    def let_go(self, operation_id: int) -> None:
        if (reader := self.take(operation_id)) is not None:
            reader.close()


_readers = _Readers()
#: An operation has ended here, or is held.
let_go = _readers.let_go


def _span_of(wanted: Selection) -> ReplaySpan:
    return ReplaySpan(wanted.topic, wanted.from_ms, wanted.to_ms, wanted.key)


class ArchiveWalk:
    """For one step of an operation."""

    def __init__(self, operation_id: int, wanted: Selection) -> None:
        self._operation_id, self._span = operation_id, _span_of(wanted)

    @property
    def most(self) -> int:
        return messages_in(self._span)

    def found(self, after: Any) -> Generator[Found]:
        came = {log: (int(at_ms), str(position)) for log, (at_ms, position) in (after or {}).items()}
        reader, at_the_end = _readers.take(self._operation_id) or open_span(self._span), False
        try:
            with closing(reader.rows(came)) as rows:
                for row in rows:
                    came = {**came, row.log: (row.at_ms, row.position)}
                    key = _key_of(row.log, row.position, row.message)
                    yield Found(key, row.position, row.at_ms, row.message, _plain(came))
            at_the_end = True
        finally:
            if at_the_end:
                reader.close()
            else:
                _readers.give_back(self._operation_id, reader)

    def done_before(self, keys: Collection[str]) -> set[str]:
        rows = OperationItem.objects.filter(operation_id=self._operation_id, key__in=keys)
        return set(rows.order_by().values_list("key", flat=True))


def _plain(came: dict[str, tuple[int, str]]) -> dict[str, list[Any]]:
    return {log: list(reached) for log, reached in came.items()}


def _key_of(log: str, position: str, message: Message | None) -> str:
    """Of a message by what it is, wherever it lies; what is none is told by its place."""
    what = ("at", log, position) if message is None else ("of", message.source, message.id)
    return hashlib.blake2b(ascii(what).encode(), digest_size=20).hexdigest()


def survey_archive(actor: Actor, wanted: Selection) -> Plan:
    """What is known beforehand: how many messages the files have, and what of the span is not there.

    Raises ``PublishRefused`` where the place takes nothing at all.
    """
    topic, target = Topic.objects.get(name=wanted.topic), ReplayTarget(actor, wanted)
    try:
        found = archived_span(topic, _span_of(wanted))
    except LakeDamaged as error:
        return Plan(None, obstacle=str(error))
    target.refusal(_ANY)
    told = found.told
    return Plan(
        total=None if told.most else 0,
        warnings=target.warnings(),
        scanned=f"The files of the archive tell of {_many(found)} in this span{NONE_READ}",
        horizon=wanted.to_ms,
        findings=list(_findings(found, wanted, target)),
        dear=True,
    )


def older_warnings(wanted: Selection, oldest_ms: int) -> Iterator[str]:
    """What the archive has of the range from before the oldest message that the topic itself holds."""
    before_ms = min(oldest_ms, wanted.to_ms)
    if wanted.after or before_ms <= wanted.from_ms:
        return
    try:
        more = messages_in(ReplaySpan(wanted.topic, wanted.from_ms, before_ms))
    except LakeDamaged as error:
        yield f"Whether the archive has more is not known: {error}"
        return
    if more:
        yield (
            f"{wanted.topic} holds nothing from before {to_rfc3339(before_ms)} any more, and the archive does: read"
            " from the archive to replay that, too."
        )


def _many(found: ArchivedSpan) -> str:
    least, most = found.told.least, found.told.most
    return counted(most, "message") if least == most else f"{num(least)} to {counted(most, 'message')}"


def _findings(found: ArchivedSpan, wanted: Selection, target: ReplayTarget) -> Iterator[PlanLine]:
    told, chosen = found.told, [name for name in ("key", "filter") if getattr(wanted, name)]
    note = f"in {counted(told.files, 'file')}" + (f", before {' and '.join(chosen)}" if chosen else "")
    yield PlanLine("in the span", _many(found), note)
    if found.reach is not None:
        yield PlanLine("archived from", to_rfc3339(found.reach.first_ms), tone=_earlier(found.reach.first_ms, wanted))
        yield _upto(found, found.reach.upto_ms, wanted)
    if told.kept_from:
        yield PlanLine("gone by its rules", f"before {told.kept_from}", "the archive keeps no older days", "warn")
    if told.lost:
        yield PlanLine("lost", told.lost, "gone from the topic before they were archived", "bad")
    if told.uncounted_losses:
        times = counted(told.uncounted_losses, "time")
        yield PlanLine("lost, uncounted", times, "gone from the topic before they were archived", "bad")
    if told.erased_messages:
        yield PlanLine("erased", told.erased_messages, "of the whole topic, on request: they do not come", "warn")
    if target.checks:
        yield PlanLine("schema", wanted.into_topic, "is compared with each as it comes; what does not fit it is left")


def _earlier(first_ms: int, wanted: Selection) -> str:
    return "warn" if wanted.from_ms and wanted.from_ms < first_ms else ""


def _upto(found: ArchivedSpan, upto_ms: int, wanted: Selection) -> PlanLine:
    said = to_rfc3339(upto_ms)
    if wanted.to_ms <= upto_ms:
        return PlanLine("archived up to", said)
    if not found.goes_on:
        return PlanLine("archived up to", said, "and no further", "warn")
    if found.waiting == 0:
        return PlanLine("archived up to", said, "nothing waits")
    waits = "what waits to be archived" if found.waiting is None else f"{num(found.waiting)} that wait to be archived"
    return PlanLine("archived up to", said, f"{waits} may not come", "warn")
