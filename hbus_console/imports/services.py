"""Imports a file into a topic: resumable, without duplicates, every row accounted for."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from engine.bus.producer import BatchItem, Producer, Receipt
from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Conflict, HbusError
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.database import fresh_connections
from hbus_console.imports.mapping import Mapper, Mapping, RowRefused
from hbus_console.imports.models import ImportRun
from hbus_console.imports.publishing import SteadyPublisher, Tally
from hbus_console.imports.rejects import Rejects
from hbus_console.imports.rows import Fingerprint, ImportRow, beginnings, read_rows
from hbus_console.publishing.feature import PUBLISH
from hbus_console.quotas.asking import PUBLISH as QUOTA
from hbus_console.quotas.asking import pacing

#: The most rows published, and accounted for, at once.
BATCH_LIMIT = 5_000
#: A batch ends with the row that brings it to so many bytes of the file.
BATCH_BYTES = 16 * 1024 * 1024


class ImportRequest(msgspec.Struct, frozen=True):
    """What to import, and how. ``mapping.topic`` is the topic; ``rate`` 0 means as fast as it goes."""

    file: Path
    #: See :func:`hbus_console.imports.rows.fingerprint`.
    fingerprint: Fingerprint
    mapping: Mapping
    rejects: Path
    rate: float = 0
    batch: int = 500
    #: Forget where an earlier run stopped. Rows published before are recognised by their keys for as long as the bus
    #: knows these, see :func:`run_import`.
    from_start: bool = False


class ImportReport(msgspec.Struct):
    """The account of a file, over all runs of its import."""

    topic: str
    file: str
    read: int = 0
    #: Rows that an import of a shorter file with the same beginning accounts for.
    taken_over: int = 0
    published: int = 0
    deduplicated: int = 0
    rejected: int = 0
    #: Rows that earlier runs had accounted for.
    resumed_after: int = 0
    finished: bool = False
    dry_run: bool = False
    rejects_file: str = ""

    @property
    def holds(self) -> bool:
        """read = taken_over + published + deduplicated + rejected."""
        return self.read == self.taken_over + self.published + self.deduplicated + self.rejected


Progress = Callable[[ImportReport], None]


def run_import(
    actor: Actor,
    request: ImportRequest,
    producer: Producer,
    *,
    stop: threading.Event,
    progress: Progress = lambda _: None,
    waiting: Callable[[str], None] = lambda _: None,
    clock: Clock | None = None,
) -> ImportReport:
    """Publish the rows not yet accounted for; ends early, between batches, once ``stop`` is set.

    A file that begins with all that an earlier import of the same mapping read goes on behind it: it has grown.

    Raises ``Forbidden``, ``BadInput`` (file, mapping, options) or ``Unavailable`` (the store stayed away too long);
    whatever ends it, the next call goes on behind the last batch that was accounted for. A batch that was published and
    not accounted for is offered again: within :data:`~hbus_console.imports.mapping.KNOWN_S`, or the topic's window
    where that is longer, the bus knows its rows, and they count as deduplicated; later they are published once more.
    """
    check(request)
    topic = request.mapping.topic
    require(actor, PUBLISH, topic)
    run = _open_run(actor, request)
    report = ImportReport(topic, str(request.file), resumed_after=run.read)
    _copy_counts(run, report)
    if run.finished_at is not None:
        report.finished = True
        progress(report)
        return report
    publisher = SteadyPublisher(
        producer,
        clock=clock or SystemClock(),
        stop=stop,
        rate=request.rate,
        pacing=pacing(QUOTA, topic, actor.name),
        waiting=waiting,
    )
    mapper = Mapper(request.mapping)
    progress(report)
    path = str(request.rejects.absolute())
    # Runs of earlier releases noted the length alone.
    own = run.rejects_file == path or (not run.rejects_file and run.rejects_bytes > 0)
    with Rejects(request.rejects, own=own, keep=run.rejects_bytes if own else 0) as rejects:
        if run.rejects_file != path:
            run.rejects_file, run.rejects_bytes = path, run.rejects_bytes if own else 0
            run.save(update_fields=["rejects_file", "rejects_bytes", "updated_at"])
        for rows in _batches(islice(read_rows(request.file), run.read, None), request.batch):
            if stop.is_set():
                return report
            tally = _publish(publisher, mapper, run, rows, rejects)
            with fresh_connections():
                _account(run, rows, tally, rejects.flush())
            _copy_counts(run, report)
            progress(report)
    _finish(actor, run, report)
    return report


def try_import(
    actor: Actor, request: ImportRequest, producer: Producer, *, progress: Progress = lambda _: None
) -> tuple[ImportReport, list[str]]:
    """A dry run: everything but the publishing. Returns the account and the first ten problems; writes nothing.

    ``published`` counts what would be published.
    """
    check(request)
    require(actor, PUBLISH, request.mapping.topic)
    report = ImportReport(request.mapping.topic, str(request.file), dry_run=True)
    mapper = Mapper(request.mapping)
    problems: list[str] = []
    for row in read_rows(request.file):
        report.read += 1
        try:
            item = _item(mapper, request.fingerprint.digest, row)
            producer.prepare(request.mapping.topic, item.payload, item.options)
            report.published += 1
        except (RowRefused, HbusError) as error:
            report.rejected += 1
            if len(problems) < 10:
                problems.append(f"line {row.line}: {error}")
        if report.read % request.batch == 0:
            progress(report)
    report.finished = True
    progress(report)
    return report, problems


def check(request: ImportRequest) -> None:
    """Raises ``BadInput`` naming the option at fault."""
    if not request.mapping.topic:
        raise BadInput("No topic is named.", remedy="Give --topic, or topic in the mapping.", field="topic")
    if not 1 <= request.batch <= BATCH_LIMIT:
        raise BadInput(f"A batch has 1 to {BATCH_LIMIT} rows.", remedy="500 is the default.", field="batch")
    if request.rate < 0:
        raise BadInput(
            "A rate cannot be negative.", remedy="Messages a second; leave it out for full speed.", field="rate"
        )


def _publish(
    publisher: SteadyPublisher, mapper: Mapper, run: ImportRun, rows: list[ImportRow], rejects: Rejects
) -> Tally:
    tally = Tally()
    good: list[ImportRow] = []
    items: list[BatchItem] = []
    refused: list[tuple[ImportRow, str]] = []
    for row in rows:
        try:
            items.append(_item(mapper, run.origin or run.file_digest, row))
            good.append(row)
        except RowRefused as error:
            refused.append((row, str(error)))
    for row, answer in zip(good, publisher.publish(run.topic, items) if items else (), strict=True):
        if not isinstance(answer, Receipt):
            refused.append((row, str(answer)))
        elif answer.status == "duplicate":
            tally.deduplicated += 1
        else:
            tally.published += 1
    for row, reason in sorted(refused, key=lambda pair: pair[0].number):
        rejects.add(row, reason)
    tally.rejected = len(refused)
    return tally


def _item(mapper: Mapper, origin: str, row: ImportRow) -> BatchItem:
    if row.problem:
        raise RowRefused(row.problem)
    # What it holds is part of it: a row that was torn when it was read is another one once it is whole.
    identity = hashlib.sha256(f"{origin}:{row.line}:{row.digest}".encode()).hexdigest()[:32]
    return BatchItem(mapper.payload(row.values), mapper.options(row.values, identity=identity))


def _batches(rows: Iterable[ImportRow], size: int) -> Iterator[list[ImportRow]]:
    batch: list[ImportRow] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += row.size
        if len(batch) >= size or held >= BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _open_run(actor: Actor, request: ImportRequest) -> ImportRun:
    known = {
        "topic": request.mapping.topic,
        "mapping_digest": hashlib.sha256(msgspec.json.encode(request.mapping, order="sorted")).hexdigest(),
    }
    digest, size = request.fingerprint
    new = {"file_bytes": size, "origin": digest, "file_name": str(request.file)[:500], "started_by": actor.name}
    if not ImportRun.objects.filter(file_digest=digest, **known).exists() and (before := _before(request, known)):
        new |= _going_on(before, request)
    with transaction.atomic():
        run, made = ImportRun.objects.get_or_create(file_digest=digest, **known, defaults=new)
        if request.from_start and not made:
            run.read = run.taken_over = run.published = run.deduplicated = run.rejected = run.rejects_bytes = 0
            run.finished_at = None
            run.save()
        if run.finished_at is None:
            record(actor, "import.start", run.subject, after={"file": run.file_name, "after_row": run.read})
    return run


def _before(request: ImportRequest, known: dict[str, str]) -> ImportRun | None:
    """The import of the most of this file's beginning, if there was one."""
    shorter = ImportRun.objects.filter(**known, file_bytes__gt=0, file_bytes__lt=request.fingerprint.size, read__gt=0)
    runs = {Fingerprint(run.file_digest, run.file_bytes): run for run in shorter}
    found = [runs[each] for each in beginnings(request.file, (each.size for each in runs)) if each in runs]
    return found[-1] if found else None


def _going_on(before: ImportRun, request: ImportRequest) -> dict[str, Any]:
    """What a run takes over of ``before``. Its last row may have been read when it was not whole yet: then not that."""
    taken = {
        "origin": before.origin,
        "rejects_file": before.rejects_file,
        "rejects_bytes": before.rejects_bytes,
    }
    if request.from_start:
        return {**taken, "rejects_bytes": 0}
    last = next(islice(read_rows(request.file), before.read - 1, None), None)
    if last is None or last.line != before.last_line:
        raise BadInput(
            f"{request.file} has grown since it was imported, and its rows no longer lie where they did.",
            remedy="Look at its end then, perhaps a quote was open. --from-start offers every row again.",
            field="file",
        )
    rows = before.read if last.digest == before.last_row else before.read - 1
    return {**taken, "read": rows, "taken_over": rows, "last_line": before.last_line, "last_row": before.last_row}


def _account(run: ImportRun, rows: list[ImportRow], tally: Tally, rejects_bytes: int) -> None:
    """Note what became of ``rows``, unless another import of the file did so meanwhile; raises ``Conflict`` then."""
    before = run.read
    run.read += len(rows)
    run.last_line, run.last_row = rows[-1].line, rows[-1].digest
    run.published += tally.published
    run.deduplicated += tally.deduplicated
    run.rejected += tally.rejected
    run.rejects_bytes, run.updated_at = rejects_bytes, timezone.now()
    noted = (
        "read", "last_line", "last_row", "published", "deduplicated", "rejected", "rejects_bytes", "updated_at",
    )  # fmt: skip
    # Each row is accounted for once, however many go through the file: the others' figures are never written over.
    mine = ImportRun.objects.filter(pk=run.pk, read=before, finished_at=None)
    if not mine.update(**{name: getattr(run, name) for name in noted}):
        raise Conflict(
            f"Another import of {run.file_name} into {run.topic} is under way, and accounts for its rows.",
            remedy="Let it end. If it was stopped, run this again within three days: nothing is published twice then.",
            field="file",
        )


def _finish(actor: Actor, run: ImportRun, report: ImportReport) -> None:
    report.finished = True
    with fresh_connections(), transaction.atomic():
        run.finished_at = timezone.now()
        run.save(update_fields=["finished_at", "updated_at"])
        record(
            actor,
            "import.finish",
            run.subject,
            after={
                "file": run.file_name,
                "read": run.read,
                "published": run.published,
                "deduplicated": run.deduplicated,
                "rejected": run.rejected,
            },
        )


def _copy_counts(run: ImportRun, report: ImportReport) -> None:
    report.read, report.taken_over, report.published = run.read, run.taken_over, run.published
    report.deduplicated, report.rejected = run.deduplicated, run.rejected
    report.rejects_file = run.rejects_file if run.rejected else ""
