"""Bodies of pings at the door of the real application: none is refused for its length, and none fills memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings

from hbus_console.asgi import application
from hbus_console.body_limit import App
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.pings.body import PingBodies
from hbus_console.jobs.pings.code import new_code
from hbus_console.jobs.pings.ping import MOST_BODY
from tests.hbus_console.jobs.pings.conftest import Bell, MakeBell

MB = 1024 * 1024


class Sender:
    """A client that sends ``chunks`` and then waits for the answer."""

    def __init__(self, chunks: Iterator[bytes], **headers: str) -> None:
        self._chunks = chunks
        self._headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        self.read = 0
        self.ended = False
        self.sent: list[dict[str, Any]] = []
        #: How much was read when the answer began.
        self.read_at_answer = -1

    def send(self, path: str, to: App = application) -> int:
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "client": ("10.0.0.7", 1),
            "headers": [(b"host", b"localhost"), *self._headers],
        }
        asyncio.run(to(scope, self._receive, self._answer))
        return int(self.sent[0]["status"])

    async def _receive(self) -> dict[str, Any]:
        if self.ended:
            await asyncio.Event().wait()
        # Others have their turn, as on a wire.
        await asyncio.sleep(0)
        chunk = next(self._chunks, b"")
        self.ended = not chunk
        self.read += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": not self.ended}

    async def _answer(self, message: Any) -> None:
        if self.read_at_answer < 0:
            self.read_at_answer = self.read
        self.sent.append(dict(message))


@pytest.fixture
def bell(make_bell: MakeBell) -> Bell:
    # By the real time: each second is a slot.
    return make_bell(schedule="* * * * * *", grace_s=86_400)


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
@pytest.mark.parametrize("announced", [True, False])
def test_a_long_body_is_read_to_its_end_and_its_first_part_is_kept(bell: Bell, announced: bool) -> None:
    length = {"content_length": str(MB)} if announced else {}
    sender = Sender(iter([b"x" * 1023 + b"\n"] * 1024), **length)
    assert sender.send(f"/ping/{bell.code}") == 200
    assert (sender.read_at_answer, sender.ended) == (MB, True)
    said = bell.log(JobRun.objects.get())
    assert said.count("x" * 1023) == MOST_BODY // 1024
    of = "of 1,048,576 bytes " if announced else ""
    assert said.endswith(f"… the rest was cut: {of}the first 65,536 bytes are kept\n")


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_what_is_longer_than_any_body_counts_and_is_not_read_for_ever(bell: Bell) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * MB

    sender = Sender(endless(), content_length=str(10**12))
    assert sender.send(f"/ping/{bell.code}") == 200
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE < sender.read_at_answer < 2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert JobRun.objects.get().state == "done"


@pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
def test_of_who_knows_no_code_little_is_taken() -> None:
    taken: list[int] = []

    async def console(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            taken.append(len(message["body"]))
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 404, "headers": []})

    sender = Sender(iter([b"x" * 1000] * 10_000))
    assert sender.send(f"/ping/{new_code()}", PingBodies(console, console)) == 404
    assert sum(taken) == MOST_BODY + 1
    assert sender.read < MOST_BODY + 2_000


def test_only_what_is_longer_is_said_to_be_cut() -> None:
    handed: list[bytes] = []

    async def console(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        handed.append(body)
        # As Django, which looks whether the client is still there.
        listens = asyncio.ensure_future(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        listens.cancel()

    for length in (0, MOST_BODY, MOST_BODY + 1, MOST_BODY + 5):
        Sender(iter([b"x" * length])).send("/ping/x", PingBodies(console, console))
    assert [len(body) for body in handed] == [0, MOST_BODY, MOST_BODY + 1, MOST_BODY + 1]


def test_other_addresses_keep_their_limit() -> None:
    async def console(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    async def others(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 413, "headers": []})

    assert Sender(iter([])).send("/pings/", PingBodies(console, others)) == 413
