"""The queue between nodes and workers: a Celery task for each run that is offered.

It promises nothing. A task may come twice, late or never, and the queue may be emptied: what was not begun is offered
again, and what was begun is not begun twice.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import msgspec
from celery import Celery, signals
from kombu.exceptions import OperationalError

from engine.core.error_text import words_of
from engine.core.errors import Unavailable
from engine.core.store.answered import answered
from engine.cron.slots.steps import Offer, Queued

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")

#: The task, and the queue that its workers read.
RUN_TASK = "hbus.jobs.run"
QUEUE = "hbus-jobs"

app = Celery("hbus-jobs", include=["hbus_console.jobs.working.tasks"])
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.task_default_queue = QUEUE
# What steers the hosts of subscriptions is none of theirs.
app.conf.control_exchange = QUEUE

#: The task as Celery writes it for its Redis broker (version 2 of its message protocol, in an envelope of Kombu's),
#: but for what differs from one to the next: its body, its id, and the run.
_MESSAGE = (
    msgspec.json.encode(
        {
            "body": "BODY",
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {
                "lang": "py",
                "task": RUN_TASK,
                "id": "TASK",
                "root_id": "TASK",
                "argsrepr": "(RUN,)",
                "kwargsrepr": "{}",
                "retries": 0,
                "timelimit": [None, None],
                "ignore_result": True,
                "replaced_task_nesting": 0,
                "stamps": {},
                **dict.fromkeys(("shadow", "eta", "expires", "group", "group_index", "parent_id", "stamped_headers")),
            },
            "properties": {
                "correlation_id": "TASK",
                "delivery_tag": "TASK",
                "delivery_mode": 2,
                "delivery_info": {"exchange": "", "routing_key": "QUEUE"},
                "priority": 0,
                "body_encoding": "base64",
            },
        }
    )
    .decode()
    .replace("%", "%%")
    .replace("TASK", "%(task)s")
    .replace("BODY", "%(body)s")
    .replace("RUN", "%(run)d")
    .replace('"QUEUE"', "%(queue)s")
)
_BODY = '[[%d],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'


def offer(step: Offer) -> None:
    """Give the runs to the workers, in one command. Thread-safe. Raises ``Unavailable``: some may have been given."""
    # Celery sends one task at a time, which is far too slow where thousands come in the same second.
    with _broker() as client:
        for queue, runs in _by_queue(step).items():
            client.lpush(queue, *_messages(runs, queue))


def queued(step: Queued) -> dict[str, int]:
    """How much waits in each queue. Thread-safe. Raises ``Unavailable``."""
    with _broker() as client:
        return {node: int(client.llen(queue_of(node) if node else QUEUE)) for node in ("", *step.nodes)}


@contextmanager
def _broker() -> Iterator[Any]:
    """A client of the Redis that is the broker always, which prefixes what it is given as Kombu does."""
    try:
        with answered(), app.producer_pool.acquire(block=True, timeout=5) as producer:
            # The channel of Kombu's transport.
            channel: Any = producer.channel
            with channel.conn_or_acquire() as client:
                yield client
    except (OperationalError, TimeoutError, Unavailable) as error:
        raise Unavailable(
            f"The workers' queue cannot be reached: {words_of(error)}.", remedy="It is tried again."
        ) from error


def queue_of(node: str) -> str:
    """What the workers of one node read besides."""
    return f"{QUEUE}@{node}"


def _by_queue(step: Offer) -> dict[str, Sequence[int]]:
    if not step.only_on:
        return {QUEUE: step.runs}
    found: dict[str, list[int]] = {}
    for run in step.runs:
        node = step.only_on.get(run)
        found.setdefault(queue_of(node) if node else QUEUE, []).append(run)
    return dict(found)


def _messages(runs: Sequence[int], queue: str) -> Iterator[str]:
    told = msgspec.json.encode(queue).decode()
    offered = str(uuid4())
    for number, run in enumerate(runs):
        body = b64encode((_BODY % run).encode()).decode()
        yield _MESSAGE % {"task": f"{offered}-{number}", "body": body, "run": run, "queue": told}


@signals.setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """A receiver tells Celery that logging is configured: Django's settings have done it."""
