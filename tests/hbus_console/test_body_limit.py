"""The limit of request bodies, at the door of the real application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from hbus_console.asgi import application

LIMIT = 1_000


@pytest.fixture(autouse=True)
def _limit(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = LIMIT


def send(chunks: Iterator[bytes], **headers: str) -> tuple[int, bytes]:
    """The status and the body that the application answers to a body of ``chunks``."""
    sent: list[dict[str, Any]] = []
    ended = False

    async def receive() -> dict[str, Any]:
        nonlocal ended
        if ended:
            # As a server whose client waits for the answer.
            await asyncio.Event().wait()
        chunk = next(chunks, b"")
        ended = not chunk
        return {"type": "http.request", "body": chunk, "more_body": not ended}

    async def answer(message: Any) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/topics/booking.created/messages",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(application(scope, receive, answer))
    return sent[0]["status"], b"".join(part.get("body", b"") for part in sent)


def test_a_length_beyond_the_limit_is_refused_unread() -> None:
    chunks = iter([b"x" * 10])
    status, body = send(chunks, content_length=str(LIMIT + 1))
    assert (status, json.loads(body)["status"]) == (413, 413)
    assert next(chunks) == b"x" * 10


def test_a_body_of_no_told_length_is_read_up_to_the_limit() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 100
            yield b"x" * 100

    assert send(endless())[0] == 413
    assert taken == LIMIT + 100


@pytest.mark.django_db
def test_a_body_within_the_limit_goes_on_to_the_application() -> None:
    assert send(iter([b"x" * LIMIT]), content_length=str(LIMIT), host="localhost")[0] == 401
