"""Jobs of a team, and who may do what to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.jobs.models import Job
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job
from hbus_console.jobs.working.process import RunProcess
from hbus_console.teams.models import Team
from tests.hbus_console.topics.conftest import actor, calling, committed, own_keys, signed_in, team, topic

__all__ = ["calling", "committed", "own_keys", "signed_in", "team", "topic"]

#: Makes a job of the team ops: ``make("function", "test.greet", parameters={…})``.
MakeJob = Callable[..., Job]


@pytest.fixture
def admin_actor() -> Actor:
    return actor(Role.ADMIN)


@pytest.fixture(autouse=True)
def _leases_of_no_other_test(own_keys: None) -> None:
    """Numbers of runs begin anew with each test: under shared keys one would meet the leases and epochs of others."""


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads the queue here."""
    monkeypatch.setattr("hbus_console.jobs.services.triggering.offer", lambda _: None)


@pytest.fixture
def worker(db: None) -> Iterator[RunProcess]:
    """One process of the role, in this one."""
    made = RunProcess()
    yield made
    made.close()


@pytest.fixture
def make_job(db: None) -> MakeJob:
    Team.objects.get_or_create(name="ops", defaults={"contact": "#ops"})

    def make(kind: str, target: str, name: str = "close-of-day", *, by: Actor = SYSTEM, **more: Any) -> Job:
        return create_job(by, JobDraft(name, "ops", kind, target, more.pop("schedule", "0 3 * * *"), **more))

    return make
