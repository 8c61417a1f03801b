"""Of a slot that was done in parts, one run stands for all: the one that went worst."""

from __future__ import annotations

import pytest

from engine.cron.slots.steps import RunState
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.recent import newest_runs

pytestmark = pytest.mark.django_db
NAME, SLOT = "close-of-day", 1_790_000_000


def part(name: str, took_s: int, state: RunState = RunState.DONE) -> None:
    begun_us = SLOT * 1_000_000
    ended_us = begun_us + took_s * 1_000_000
    times = {"decided_us": begun_us, "begun_us": begun_us, "ended_us": ended_us, "changed_us": ended_us}
    JobRun.objects.create(job=NAME, version=1, slot=SLOT, part=name, state=state, **times)


@pytest.mark.parametrize("took", [(9, 4, 2), (2, 9, 4), (2, 4, 9)])
def test_of_those_that_went_alike_the_longest_stands_for_them(took: tuple[int, ...]) -> None:
    for number, seconds in enumerate(took, 1):
        part(f"{number}/3", seconds)
    (shown,) = newest_runs([NAME], 3)[NAME]
    assert shown.part == f"{took.index(9) + 1}/3"


def test_one_that_failed_stands_before_a_longer_one_that_is_done() -> None:
    part("1/2", 9)
    part("2/2", 1, RunState.FAILED)
    (shown,) = newest_runs([NAME], 3)[NAME]
    assert shown.part == "2/2"
