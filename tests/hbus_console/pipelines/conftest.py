"""A topic with forty bookings in the real store, a lake of the test's own, people, and an audit of what is archived."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.test import Client
from pytest_django import Settings

from engine.bus import Message
from engine.bus.message import encode
from engine.bus.options import PublishOptions
from engine.bus.producer import BatchItem
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock
from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.functions import find_function
from engine.cron.work.log_spool import LogSpool
from engine.pipeline.archive.tasks import in_this_process
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.jobs.models import JobRun
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.audits import working
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.feature import AUDIT_JOB
from hbus_console.pipelines.models import BusAudit
from hbus_console.pipelines.services import archive_topic
from hbus_console.publishing.producer import shared_producer
from hbus_console.teams.models import Team
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from hbus_console.wiring.lake import lake

TOPIC, OTHER = "booking.created", "payment.taken"
WHY = "the auditors ask for it"
MakeUser = Callable[..., User]


@pytest.fixture
def topic(settings: Settings, prefix: str, transactional_db: None, tmp_path: Path) -> Iterator[Topic]:
    store.close()
    settings.HBUS_PREFIX = prefix
    settings.HBUS_LAKE = str(tmp_path / "lake")
    catalog.changed()
    team = Team.objects.create(name="Bookings", contact="bookings@hotel.example")
    made = Topic.objects.create(name=TOPIC, team=team)
    Topic.objects.create(name="payment.taken", team=team)
    for name in (TOPIC, "payment.taken"):
        bus.admin().create_topic(name)
    publish(40)
    yield made
    store.close()


def publish(number: int, topic: str = TOPIC) -> None:
    items = [BatchItem({"n": n, "guest": f"g{n}"}, PublishOptions(key=f"H-{n % 3}")) for n in range(number)]
    shared_producer().publish_batch(topic, items)


def kept(topic: str = TOPIC) -> list[str]:
    """The ids in the lake."""
    found: list[str] = []
    for path in lake().paths(lake().state().files_of(topic)):
        found += pq.read_table(path, columns=["id"])["id"].to_pylist()
    return found


@pytest.fixture
def make_user() -> MakeUser:
    def make(role: str = "governor", scope: str = "*", name: str = "gov") -> User:
        user = User.objects.create_user(name, password="x")
        user.grants.create(role=role, scope=scope)
        return user

    return make


@pytest.fixture
def governor(topic: Topic, make_user: MakeUser) -> Actor:
    return actor_of(make_user())


def store_twice(number: str, data: bytes) -> None:
    """Past the producer, which would not."""
    body = encode(Message(id=number, source="/tests", type="t", partitionkey="H-1", data=data))  # type: ignore[arg-type]
    bus.transport().publish(TOPIC, [Outgoing(number, body), Outgoing(number, body)])


def work(run: JobRun, folder: Path) -> str:
    """As a worker would."""
    call = RunCall(run.pk, AUDIT_JOB, 1, run.slot, 1, "w", parameters=run.parameters)
    outcome = find_function(AUDIT_JOB).run(RunContext(call, LogSpool(folder, run.pk, 1)))
    assert outcome.done, outcome.error
    return str(outcome.summary)


@pytest.fixture
def archived(governor: Actor, monkeypatch: pytest.MonkeyPatch) -> Actor:
    """Both topics are, with a message of one stored twice; by now all of it can be judged."""
    publish(7, OTHER)
    for name in (TOPIC, OTHER):
        archive_topic(governor, name, WHY)
    store_twice("twice", b'{"n":1}')
    run_archive(wanted_topics([]), in_this_process)
    clock = ManualClock(round(time.time() * 1000) + 3_600_000)
    monkeypatch.setattr(working, "SystemClock", lambda: clock)
    return governor


@pytest.fixture
def audited(archived: Actor, tmp_path: Path) -> BusAudit:
    work(ask_audit(archived, WantedAudit(reason=WHY)), tmp_path)
    return BusAudit.objects.get()


@pytest.fixture
def page(audited: BusAudit) -> Client:
    client = Client()
    client.force_login(User.objects.get(username="gov"))
    return client
