"""Jobs that are played, and what their work did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.conf import settings

from engine.cron.slots.job import CronJob
from engine.cron.work.call import RunContext
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.rehearsing.apart import PlayedSpan, set_apart
from hbus_console.jobs.rehearsing.mishaps import Mishap
from hbus_console.jobs.rehearsing.rehearsal import Rehearsal
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.teams.models import Team
from hbus_console.wiring import store
from tests.hbus_console.topics.conftest import own_keys

__all__ = ["own_keys"]

#: 2025-01-31, 20:00 UTC, and an hour.
BEGIN = 1_738_353_600
HOUR = PlayedSpan(BEGIN, BEGIN + 3_600)
TENTH_MINUTES = [BEGIN + 600 * number for number in range(6)]


@pytest.fixture
def effects() -> Iterator[list[tuple[int, int]]]:
    """Slot and attempt of each run of the function ``test.works``, which waits so many seconds between two of them."""
    done: list[tuple[int, int]] = []

    def works(context: RunContext, takes_s: float = 0.0) -> str:
        """Leave a mark, and wait."""
        done.append((context.call.slot - BEGIN, context.call.attempt))
        context.wait(takes_s)
        return f"waited {takes_s:g} s"

    job_function("test.works")(works)
    yield done
    forget_functions("test.works")


@pytest.fixture
def apart(own_keys: None, db: None, effects: list[tuple[int, int]]) -> Callable[..., list[CronJob]]:
    """Sets a job apart that works each tenth minute of the hour."""
    Team.objects.create(name="ops", contact="#ops")

    def make(name: str = "night.works", **more: Any) -> list[CronJob]:
        draft = JobDraft(name, "ops", "function", "test.works", "*/10 * * * *", **more)
        return set_apart(SYSTEM, [draft], HOUR, "a simulated hour")

    return make


def rehearsal(jobs: Sequence[CronJob], mishaps: Sequence[Mishap] = ()) -> Rehearsal:
    return Rehearsal(jobs, HOUR, store.client(), settings.HBUS_PREFIX, mishaps=mishaps)


def play(jobs: Sequence[CronJob], *mishaps: Mishap) -> Rehearsal:
    played = rehearsal(jobs, mishaps)
    assert played.play(lambda _: None, threading.Event())
    return played
