"""The peer that has nothing but nsqd: ``/mpub`` over HTTP, and pynsq's own Reader as its manual shows it."""

from __future__ import annotations

import asyncio
import http.client
import json
import struct
import sys
import time
from typing import Any

import nsq

from hbus_console.bench.processes import report, wait_for_go

BATCH = 500
#: What the reader may have in flight; its own default of 1 would be no peer.
IN_FLIGHT = 500


def publish(connection: http.client.HTTPConnection, topic: str, count: int, body: bytes) -> None:
    """Hand ``count`` bodies to nsqd, :data:`BATCH` to a call, each call confirmed."""
    framed = struct.pack(">i", len(body)) + body
    for start in range(0, count, BATCH):
        number = min(BATCH, count - start)
        packed = struct.pack(">i", number) + framed * number
        connection.request("POST", f"/mpub?topic={topic}&binary=true", body=packed)
        answer = connection.getresponse()
        if (words := answer.read()) != b"OK":
            raise RuntimeError(f"nsqd refused: {answer.status} {words!r}")


async def consume(task: dict[str, Any]) -> tuple[float, float]:
    """Finish ``count`` messages in a handler that does nothing; returns when it began and ended."""
    done = asyncio.Event()
    left = task["count"]

    def handle(_: nsq.Message) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()
        return True

    started = time.time()
    nsq.Reader(
        topic=task["topic"],
        channel="bench",
        message_handler=handle,
        nsqd_tcp_addresses=[f"127.0.0.1:{task['tcp_port']}"],
        max_in_flight=IN_FLIGHT,
    )
    await done.wait()
    return started, time.time()


def main() -> None:
    task = json.loads(sys.argv[1])
    connection = http.client.HTTPConnection("127.0.0.1", task["http_port"])
    wait_for_go()
    spent = time.process_time()
    if task["do"] == "publish":
        started = time.time()
        publish(connection, task["topic"], task["count"], b"x" * task["size"])
        ended = time.time()
    else:
        started, ended = asyncio.run(consume(task))
    report(count=task["count"], started=started, ended=ended, cpu_s=time.process_time() - spent)


if __name__ == "__main__":
    main()
