"""A bare NSQ client: what any other program does to the same topic."""

from __future__ import annotations

import json
import socket
import struct
import urllib.request
from typing import Any


class RawClient:
    """One subscription over the TCP protocol, one message at a time."""

    def __init__(self, tcp_port: int, topic: str, channel: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", tcp_port), timeout=10)
        self._socket.sendall(b"  V2" + f"SUB {topic} {channel}\n".encode())
        assert self._frame() == (0, b"OK")

    def next(self) -> tuple[str, int, bytes]:
        """Id, attempts and body of the next message."""
        self._socket.sendall(b"RDY 1\n")
        while True:
            kind, data = self._frame()
            if kind == 2:
                return data[10:26].decode(), struct.unpack(">H", data[8:10])[0], data[26:]
            if data == b"_heartbeat_":
                self._socket.sendall(b"NOP\n")

    def finish(self, message_id: str) -> None:
        self._socket.sendall(f"FIN {message_id}\n".encode())

    def requeue(self, message_id: str) -> None:
        # First the readiness, or it comes back here.
        self._socket.sendall(f"RDY 0\nREQ {message_id} 0\n".encode())

    def close(self) -> None:
        self._socket.close()

    def _frame(self) -> tuple[int, bytes]:
        size, kind = struct.unpack(">ii", self._exactly(8))
        return kind, self._exactly(size - 4)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            assert chunk, "nsqd closed the connection"
            data += chunk
        return data


def channel(nsqd_url: str, topic: str, name: str) -> dict[str, Any]:
    """What nsqd says of a channel."""
    with urllib.request.urlopen(f"{nsqd_url}/stats?format=json&topic={topic}", timeout=5) as answer:
        topics = json.load(answer)["topics"] or []
    found = [each for one in topics for each in one["channels"] or [] if each["channel_name"] == name]
    return found[0] if found else {}


def tcp_port(nsqd_url: str) -> int:
    """Where this nsqd speaks TCP."""
    with urllib.request.urlopen(f"{nsqd_url}/info", timeout=5) as answer:
        return int(json.load(answer)["tcp_port"])


def post(url: str, body: bytes = b"") -> int:
    """POST as curl would; the status."""
    with urllib.request.urlopen(urllib.request.Request(url, data=body, method="POST"), timeout=5) as answer:
        return int(answer.status)
