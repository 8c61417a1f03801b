"""Starts of jobs count against the limits of their team: what may not begin yet waits, and says why."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from engine.core.errors import QuotaExceeded, Unavailable
from engine.cron.slots.steps import RunState
from engine.cron.work.call import RunContext
from engine.cron.work.functions import forget_functions, job_function
from hbus_console.access.permissions import Actor
from hbus_console.jobs.models import JobRun
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working import limits
from hbus_console.jobs.working.process import RunProcess
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "offered"),
]


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    job_function("test.greet")(greet)
    yield
    forget_functions("test.greet")


def greet(context: RunContext) -> str:
    """Say hello."""
    return "hello"


def test_a_start_beyond_the_limit_of_its_team_waits_and_is_offered_again(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job("function", "test.greet")
    taken: list[tuple[str, str]] = []
    back: list[int] = []

    def take(service: str, name: str, team: str, what: str) -> Callable[[int], None]:
        taken.append((name, team))
        if len(taken) == 1:
            raise QuotaExceeded(f"{team} may {what} for now.", again_s=30, policies=["starts"])
        return back.append

    monkeypatch.setattr(limits, "limits_anything", lambda service: service == "jobs")
    monkeypatch.setattr(limits, "take", take)
    run = trigger(admin_actor, "close-of-day", Trigger(reason="a test")).run
    assert worker.run(run.pk) is None
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("claimed", 1)
    assert run.reason == f"It waits: {job.team.name} may start no more runs of close-of-day for now."
    assert 25 < run.not_before_us / 1_000_000 - time.time() <= 30
    # Too early it is not begun, and costs nothing.
    assert worker.run(run.pk) is None
    assert back == [1]
    JobRun.objects.filter(pk=run.pk).update(not_before_us=0)
    assert worker.run(run.pk) is RunState.DONE
    assert back == [1]
    run.refresh_from_db()
    assert run.reason == ""
    assert taken == [("close-of-day", job.team.name)] * 3


def test_a_run_that_cannot_be_begun_costs_nothing(
    worker: RunProcess, make_job: MakeJob, admin_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("function", "test.greet")
    back: list[int] = []

    def away(*_: object) -> None:
        raise Unavailable("the store is away")

    monkeypatch.setattr(limits, "limits_anything", lambda service: True)
    monkeypatch.setattr(limits, "take", lambda *_: back.append)
    monkeypatch.setattr(worker._worker, "run", away)
    run = trigger(admin_actor, "close-of-day", Trigger(reason="a test")).run
    assert worker.run(run.pk) is None
    assert back == [1], "it is offered again, and takes its token then"
