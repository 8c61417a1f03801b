"""A job that runs elsewhere, what pings it, and who looks after its slots; time is what the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.core.clock import SystemClock
from engine.cron.slots.driving import perform
from engine.cron.slots.planning import decide, due_after
from engine.cron.slots.scheduling import RunSweeper
from engine.cron.slots.steps import Cursor, Offer, Opening, OpenRuns
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import cron_job
from hbus_console.jobs.models import Job, JobCursor, JobRun, LogPiece, PingAddress
from hbus_console.jobs.pings.ping import Ping, PingWord
from hbus_console.jobs.places import places
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.jobs.services.pings import receive
from hbus_console.teams.models import Team
from hbus_console.wiring.cron import slot_store
from tests.hbus_console.topics.conftest import calling, committed, own_keys, signed_in

__all__ = ["calling", "committed", "own_keys", "signed_in"]

#: A full hour.
HOUR = 1_790_002_800
NAME = "backup"
WHERE = "db1:/etc/cron.d/backup"


class Bell:
    """One job with a slot each full hour. Moments are seconds after :data:`HOUR`; it is made ``early_s`` before."""

    def __init__(self, early_s: float = 300, **more: Any) -> None:
        Team.objects.get_or_create(name="ops", defaults={"contact": "#ops"})
        wanted: dict[str, Any] = {"grace_s": 600, "timeout_s": 1_800, **more}
        draft = JobDraft(NAME, "ops", "elsewhere", WHERE, wanted.pop("schedule", "0 * * * *"), **wanted)
        create_job(SYSTEM, draft, now_s=lambda: HOUR - early_s)
        #: What was given to the workers.
        self.offered: list[int] = []

    @property
    def job(self) -> Job:
        return Job.objects.get(name=NAME)

    @property
    def code(self) -> str:
        return PingAddress.objects.get(job__name=NAME).code

    def ping(self, at: float, word: PingWord = PingWord.SUCCESS, rid: str = "", **more: Any) -> JobRun:
        """What the database has of the run that it belongs to."""
        found = receive(self.code, Ping(word, rid=rid, **more), now_s=lambda: HOUR + at)
        return JobRun.objects.get(pk=found.pk)

    def decide(self, at: float) -> None:
        """As a node decides what has come."""
        job, now_s = cron_job(self.job), HOUR + at
        cursor = JobCursor.objects.get(job=NAME)
        if slots := due_after(job, cursor.at, now_s):
            opening = Opening(Cursor(NAME, cursor.version, cursor.at), tuple(decide(job, slots, now_s)))
            SlotJudge(lambda: now_s).open_runs(OpenRuns((opening,), "n1"))

    def sweep(self, at: float) -> None:
        """As a node looks through what is open, with the store and the database that there are."""

        def offer(step: Offer) -> None:
            self.offered.extend(step.runs)

        act = places(slot_store(), SlotJudge(lambda: HOUR + at), offer, tuple)
        perform(RunSweeper().sweep({NAME: cron_job(self.job)}, HOUR + at), act, SystemClock())

    def rows(self) -> list[tuple[str, int, str]]:
        """Kind, slot and state of each run, by slot."""
        found = JobRun.objects.filter(job=NAME).order_by("slot", "pk")
        return [(run.kind, run.slot - HOUR, run.state) for run in found]

    def log(self, run: JobRun) -> str:
        return "".join(LogPiece.objects.filter(run=run.pk).order_by("seq").values_list("text", flat=True))


MakeBell = Callable[..., Bell]


@pytest.fixture
def make_bell(own_keys: None, db: None) -> MakeBell:
    return Bell


@pytest.fixture
def bell(make_bell: MakeBell) -> Bell:
    return make_bell()
