"""Who drips a request, at the real server of the web role."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from pytest_django import Settings

from hbus_console.supervisor.web import config

#: Short, so that the tests are; what must not be cut off gets the long one.
SHORT, LONG = 0.3, 30
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n"


async def _application(scope: Any, receive: Any, send: Any) -> None:
    """Answers with what was sent, once all of it is there; nothing to who goes before."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message.get("body", b"")
        more = message.get("more_body", False)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def served(settings: Settings) -> Iterator[tuple[str, int]]:
    """Where the server listens. Its bounds are those of the settings when a connection is made or goes on."""

    async def turned() -> None: ...

    settings.REQUEST_HEAD_S = settings.REQUEST_BODY_S = LONG
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(config(_application, (), turned))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    serving.start()
    yield listener.getsockname()
    server.should_exit = True
    serving.join(20)
    assert not serving.is_alive()


def _all(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    connection.settimeout(20)
    received = b""
    try:
        while chunk := connection.recv(4096):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def _drip(connection: socket.socket, byte: bytes) -> None:
    """One byte after the other, far more often than the bound, until nobody takes them."""
    until = time.monotonic() + 20
    try:
        while time.monotonic() < until:
            connection.sendall(byte)
            time.sleep(0.02)
    except OSError:
        return
    raise AssertionError("the connection stayed open")


def test_a_head_that_drips_is_told_so_and_closed(served: tuple[str, int], settings: Settings) -> None:
    settings.REQUEST_HEAD_S = SHORT
    with socket.create_connection(served) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        _drip(connection, b"x")
    with socket.create_connection(served) as connection:
        connection.sendall(b"GET / HT")
        assert _all(connection).startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_says_nothing_is_closed(served: tuple[str, int], settings: Settings) -> None:
    settings.REQUEST_HEAD_S = SHORT
    with socket.create_connection(served) as connection:
        assert _all(connection) == b""


def test_a_body_that_drips_is_told_so_and_closed(served: tuple[str, int], settings: Settings) -> None:
    settings.REQUEST_BODY_S = SHORT
    with socket.create_connection(served) as connection:
        connection.sendall(HEAD.replace(b"Length: 8", b"Length: 100000"))
        _drip(connection, b"x")
    with socket.create_connection(served) as connection:
        connection.sendall(HEAD + b"1234")
        assert _all(connection).startswith(b"HTTP/1.1 408 ")


def test_a_second_request_on_a_connection_may_not_drip_either(served: tuple[str, int], settings: Settings) -> None:
    with socket.create_connection(served) as connection:
        connection.sendall(HEAD + b"12345678")
        connection.settimeout(20)
        # The bound that counts is the one of when the answer ended.
        settings.REQUEST_HEAD_S = SHORT
        connection.sendall(HEAD + b"12345678")
        connection.sendall(b"GET / HT")
        answers = _all(connection)
    assert answers.count(b"HTTP/1.1 200 ") == 2
    assert answers.count(b"HTTP/1.1 408 ") == 1


def test_a_request_in_pieces_is_answered_and_its_answer_is_not_hurried(
    served: tuple[str, int], settings: Settings
) -> None:
    with socket.create_connection(served) as connection:
        for piece in (HEAD[:10], HEAD[10:], b"1234", b"5678"):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        assert _all(connection).endswith(b"12345678")
