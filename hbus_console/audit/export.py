"""The audit log as CSV or JSON lines, streamed in batches; the export itself is an audit entry."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.feature import AUDIT_EXPORT
from hbus_console.audit.models import AuditEntry, numbered
from hbus_console.audit.services import content, record
from hbus_console.audit.sides import shown
from hbus_console.audit.subjects import LOG
from hbus_console.audit.trail import Filter, narrowed
from hbus_console.csv_text import neutral

#: Entries read and sent at once.
BATCH = 1_000
#: Format -> media type.
FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
COLUMNS = (
    "seq",
    "at",
    "actor",
    "actor_kind",
    "action",
    "target_type",
    "target",
    "topic",
    "reason",
    "before",
    "after",
    "request_id",
    "correlation_id",
    "address",
    "previous_hash",
    "hash",
)


@dataclass(frozen=True)
class Export:
    """An export that was permitted and audited, oldest entry first; ``entry`` says so in the log."""

    entries: QuerySet[AuditEntry]
    form: str
    entry: AuditEntry

    @property
    def media_type(self) -> str:
        return FORMATS[self.form]

    @property
    def file_name(self) -> str:
        return f"audit-to-{self.entry.seq - 1}.{self.form}"

    def chunks(self) -> Iterator[bytes]:
        """The file, a batch at a time; memory does not grow with the log."""
        write = _csv if self.form == "csv" else _json_lines
        if self.form == "csv":
            yield _csv_rows([COLUMNS])
        last = 0
        while batch := list(self.entries.filter(seq__gt=last).order_by("seq")[:BATCH]):
            yield write(shown(batch))
            last = batch[-1].seq


def export(
    actor: Actor,
    form: str,
    wanted: Filter | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    reason: str = "",
) -> Export:
    """Begin an export of the entries that exist now and match. Raises ``Forbidden`` or ``BadInput`` (as, reason).

    A program may leave the reason out; a page asks for it.
    """
    require(actor, AUDIT_EXPORT)
    reason = checks.reason(reason, required=False)
    if form not in FORMATS:
        raise BadInput(f"There is no export as {form!r}.", remedy="Use csv or jsonl.", field="as")
    wanted = wanted or Filter()
    chosen: dict[str, Any] = {name: value for name, value in wanted.as_dict().items() if value}
    if start is not None:
        chosen["from"] = start
    if end is not None:
        chosen["to"] = end
    with transaction.atomic():
        entry = record(actor, "audit.export", LOG, reason=reason, after={"form": form, "filter": chosen})
    entries = narrowed(numbered().filter(seq__lt=entry.seq), wanted, start, end)
    return Export(entries, form, entry)


def streamed(request: HttpRequest, found: Export) -> StreamingHttpResponse:
    """The download. Under ASGI the batches are read in a worker thread, one at a time."""
    chunks = found.chunks()
    body = _asynchronous(chunks) if isinstance(request, ASGIRequest) else chunks
    return StreamingHttpResponse(
        body,
        content_type=found.media_type,
        headers={"Content-Disposition": f'attachment; filename="{found.file_name}"', "Cache-Control": "no-store"},
    )


def as_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry as the API and the JSON lines give it: what the hash covers, and the hashes. It is one of
    :func:`~.sides.shown`: where something is hidden by now, the hash covers what stands in the log."""
    return {**content(entry), "previous_hash": entry.previous_hash, "hash": entry.hash}


async def _asynchronous(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    def take() -> bytes | None:
        return next(chunks, None)

    while (chunk := await sync_to_async(take)()) is not None:
        yield chunk


def _json_lines(batch: list[AuditEntry]) -> bytes:
    return b"".join(json.dumps(as_json(entry), ensure_ascii=False).encode() + b"\n" for entry in batch)


def _csv(batch: list[AuditEntry]) -> bytes:
    return _csv_rows([_row(entry) for entry in batch])


def _row(entry: AuditEntry) -> list[str]:
    cells = []
    values = as_json(entry)
    for name in COLUMNS:
        value = values[name]
        if name in {"before", "after"}:
            value = "" if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)
        cells.append(neutral(str(value)))
    return cells


def _csv_rows(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
