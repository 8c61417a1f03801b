"""Downloads as JSON lines, read from the database as they are sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, StreamingHttpResponse

MEDIA_TYPE = "application/x-ndjson"
#: Lines sent at once, or fewer that come to so many bytes.
_LINES = 200
_BYTES = 1 << 20


def json_lines(request: HttpRequest, rows: Iterable[Any], file_name: str) -> StreamingHttpResponse:
    """A download of ``rows``, one JSON object a line. Under ASGI they are read in a worker thread, bit by bit."""
    chunks = _chunks(iter(rows))
    return StreamingHttpResponse(
        _asynchronous(chunks) if isinstance(request, ASGIRequest) else chunks,
        content_type=MEDIA_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{file_name}"', "Cache-Control": "no-store"},
    )


def _chunks(rows: Iterator[Any]) -> Iterator[bytes]:
    part = bytearray()
    for number, row in enumerate(rows, 1):
        part += (json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False) + "\n").encode()
        if number % _LINES == 0 or len(part) >= _BYTES:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


async def _asynchronous(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    def take() -> bytes | None:
        return next(chunks, None)

    while (chunk := await sync_to_async(take)()) is not None:
        yield chunk
