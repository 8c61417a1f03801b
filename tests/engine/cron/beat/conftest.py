"""Celery apps whose broker is a store of the test's own, and beats of them in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from engine.core.store import open_client
from engine.cron.beat.scheduler import SlotScheduler
from hbus_console.supervisor.standalone import StandaloneStore

#: Makes a beat of these entries, with further settings of the app.
MakeBeat = Callable[..., SlotScheduler]


@pytest.fixture
def client(own_store: StandaloneStore) -> Iterator[redis.Redis]:
    made = open_client(own_store.url)
    yield made
    made.close()


@pytest.fixture
def beat(own_store: StandaloneStore) -> Iterator[MakeBeat]:
    made: list[SlotScheduler] = []

    def make(entries: dict[str, Any], **settings: Any) -> SlotScheduler:
        app = Celery("hotel", broker=own_store.url, set_as_current=False)
        app.conf.update(beat_schedule=entries, result_expires=None, **settings)
        made.append(SlotScheduler(app))
        return made[-1]

    yield make
    for each in made:
        each.close()


def key_of(beat: SlotScheduler, entry: str) -> str:
    """Where the state of an entry lies."""
    return beat._keys[entry]


def messages(client: redis.Redis, queue: str = "celery") -> list[dict[str, Any]]:
    """The headers of what waits in a queue, the oldest first, each with its ``body``."""
    read = [json.loads(each) for each in reversed(client.lrange(queue, 0, -1))]
    return [{**each["headers"], "body": json.loads(base64.b64decode(each["body"]))} for each in read]
