"""Celery apps whose broker is a store of the test's own, and beats of them in this process."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery

from engine.core.clock import Clock
from engine.core.store import open_client
from engine.cron.beat.rules import BeatRule, rule_of, zone_of
from engine.cron.beat.scheduler import SlotScheduler
from engine.cron.beat.settings import settings_of
from engine.cron.beat.store import state_key
from hbus_console.supervisor.standalone import StandaloneStore

#: Makes a beat of these entries, perhaps on a clock of the test's, with further settings of the app.
MakeBeat = Callable[..., SlotScheduler]


@pytest.fixture
def client(own_store: StandaloneStore) -> Iterator[redis.Redis]:
    made = open_client(own_store.url)
    yield made
    made.close()


@pytest.fixture
def beat(own_store: StandaloneStore) -> Iterator[MakeBeat]:
    made: list[SlotScheduler] = []

    def make(entries: dict[str, Any], clock: Clock | None = None, **settings: Any) -> SlotScheduler:
        app = Celery("hotel", broker=own_store.url, set_as_current=False)
        app.conf.update(beat_schedule=entries, result_expires=None, **settings)
        made.append(SlotScheduler(app, clock=clock))
        return made[-1]

    yield make
    for each in made:
        each.close()


def key_of(beat: SlotScheduler, entry: str) -> str:
    """Where the state of an entry lies."""
    return state_key(settings_of(beat.app).prefix, entry, rule_in(beat, entry).identity)


def rule_in(beat: SlotScheduler, entry: str) -> BeatRule:
    """When an entry is due, as any beat reads it."""
    return rule_of(beat.schedule[entry].schedule, False, zone_of(beat.app))


def messages(client: redis.Redis, queue: str = "celery") -> list[dict[str, Any]]:
    """The headers of what waits in a queue, the oldest first, each with its ``body``."""
    read = [json.loads(each) for each in reversed(client.lrange(queue, 0, -1))]
    return [{**each["headers"], "body": json.loads(base64.b64decode(each["body"]))} for each in read]
