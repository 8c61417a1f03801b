"""taskiq as a peer: one no-op task on Redis Streams, one worker."""

from __future__ import annotations

import asyncio
import os

from taskiq_redis import RedisStreamBroker

# From the beginning of the stream: taskiq's default would skip what was published before the worker came.
broker = RedisStreamBroker(url=os.environ["PEER_URL"], consumer_id="0")

WORKER = "taskiq worker hbus_console.bench.peers.taskiq_app:broker --workers 1 --log-level ERROR"


@broker.task
async def handle(body: str) -> None:
    """Does nothing with ``body``."""


def publish(count: int, body: str) -> None:
    async def run() -> None:
        await broker.startup()
        for _ in range(count):
            await handle.kiq(body)
        await broker.shutdown()

    asyncio.run(run())
