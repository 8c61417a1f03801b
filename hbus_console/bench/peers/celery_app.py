"""Celery as a peer: one no-op task, threads pool, late acknowledgement."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("peer", broker=os.environ["PEER_URL"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=4,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)

#: What an idle worker of this peer is started with.
WORKER = "celery -A hbus_console.bench.peers.celery_app worker -P threads -c 8 --without-gossip -l error"


@app.task
def handle(body: str) -> None:
    """Does nothing with ``body``."""


def publish(count: int, body: str) -> None:
    for _ in range(count):
        handle.delay(body)
