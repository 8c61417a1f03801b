"""The peer that has nothing but the store: redis-py with hiredis, pipelined XADD; XREADGROUP and one XACK a batch."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import redis

from hbus_console.bench.processes import report, wait_for_go

BATCH = 500


def publish(client: redis.Redis, stream: str, count: int, body: bytes) -> None:
    """Append ``count`` bodies, :data:`BATCH` to a pipeline."""
    for start in range(0, count, BATCH):
        pipeline = client.pipeline(transaction=False)
        for _ in range(min(BATCH, count - start)):
            pipeline.xadd(stream, {"d": body})
        pipeline.execute()


def publish_singly(client: redis.Redis, stream: str, count: int, body: bytes) -> None:
    """Append one by one, each confirmed."""
    for _ in range(count):
        client.xadd(stream, {"d": body})


def consume(client: redis.Redis, stream: str, group: str, consumer: str) -> int:
    """Read and acknowledge until nothing is left."""
    handled = 0
    while True:
        answer: Any = client.xreadgroup(group, consumer, {stream: ">"}, count=BATCH)
        if not answer:
            return handled
        entries = answer[0][1] if isinstance(answer, list) else next(iter(answer.values()))[0]
        client.xack(stream, group, *[entry[0] for entry in entries])
        handled += len(entries)


def main() -> None:
    task = json.loads(sys.argv[1])
    client = redis.Redis.from_url(task["url"])
    body = b"x" * task["size"]
    wait_for_go()
    started, spent = time.time(), time.process_time()
    count = task["count"]
    if task["do"] == "publish":
        publish(client, task["topic"], count, body)
    elif task["do"] == "publish singly":
        publish_singly(client, task["topic"], count, body)
    else:
        count = consume(client, task["topic"], "bench", task["name"])
    report(count=count, started=started, ended=time.time(), cpu_s=time.process_time() - spent)


if __name__ == "__main__":
    main()
