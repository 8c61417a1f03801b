"""What is told of an answer says nothing that came with it."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from engine.core.http_client import timed_client
from engine.core.http_told import told_failure, told_status


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("HTTP/9 café-S3CRET", "RemoteProtocolError: illegal status line"),
        ("HTTP/1.1 200 OK\r\nno header café-S3CRET", "RemoteProtocolError: illegal header line"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncafé-S3CRET",
            "RemoteProtocolError: illegal chunk header",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncafé-S3CRET",
            "RemoteProtocolError: peer closed connection without sending complete message body",
        ),
        ("", "RemoteProtocolError: Server disconnected without sending a response."),
    ],
)
def test_what_cannot_be_read_is_not_quoted(answer: str, told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(f"{answer}\r\n\r\n".encode() if answer else b"")

        thread = threading.Thread(target=once)
        thread.start()
        with timed_client(10) as client, pytest.raises(httpx.HTTPError) as error:
            client.get(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        thread.join()
    assert told_failure(error.value) == told


def test_a_status_is_told_by_the_standards_phrase() -> None:
    assert [told_status(status) for status in (204, 503, 299)] == ["204 No Content", "503 Service Unavailable", "299"]
