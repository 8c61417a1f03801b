"""A job hands a task of Celery over to the broker that is named for it, under an id that follows from the run."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from pytest_django import Settings

from engine.core.errors import BadInput, ConfigurationError
from engine.core.store import open_client
from engine.cron.slots.steps import RunState
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.kinds.known import KINDS
from hbus_console.jobs.models import JobRun, LogPiece
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.working.process import RunProcess
from hbus_console.stores import Broker, job_broker
from hbus_console.supervisor.standalone import StandaloneStore
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "ledger"]),
    pytest.mark.usefixtures("own_keys", "offered"),
]
Ran = Callable[[], JobRun]


@pytest.fixture
def broker(own_store: StandaloneStore, settings: Settings) -> Iterator[redis.Redis]:
    """That of the project whose workers do the task."""
    settings.HBUS_JOB_BROKER = job_broker(own_store.url)
    client = open_client(own_store.url)
    yield client
    client.close()


@pytest.fixture
def ran(worker: RunProcess) -> Ran:
    def run() -> JobRun:
        made = trigger(SYSTEM, "close-of-day", Trigger(None, "a test")).run
        worker.run(made.pk)
        made.refresh_from_db()
        return made

    return run


def messages(broker: redis.Redis, queue: str) -> list[tuple[dict[str, Any], Any]]:
    """Headers and body of each that waits."""
    read = [json.loads(each) for each in broker.lrange(queue, 0, -1)]
    return [(each["headers"], json.loads(base64.b64decode(each["body"]))) for each in read]


def test_the_broker_has_the_task_with_all_that_the_job_says(broker: redis.Redis, make_job: MakeJob, ran: Ran) -> None:
    options = {"queue": "night", "args": ["HB-1", 7], "expires": 60, "priority": 3, "time_limit": 30}
    make_job("celery", "hotel.tasks.close", options=options, parameters={"dry": True})
    run = ran()
    # Celery on Redis has a list a step of priorities.
    ((headers, body),) = messages(broker, "night\x06\x163")
    assert body[:2] == [["HB-1", 7], {"dry": True}]
    assert (headers["task"], headers["timelimit"]) == ("hotel.tasks.close", [30, None])
    assert headers["expires"]
    assert (headers["hbus_run"], headers["hbus_job"]) == (run.pk, "close-of-day")
    assert headers["hbus_slot"].endswith("Z")
    assert run.state == RunState.DONE
    assert run.summary.startswith(f"handed over to the broker as {headers['id']}; what becomes of it")
    assert headers["id"] in "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))


def test_without_a_queue_it_goes_to_celerys_own(broker: redis.Redis, make_job: MakeJob, ran: Ran) -> None:
    make_job("celery", "hotel.tasks.close")
    ran()
    assert len(messages(broker, "celery")) == 1


def test_a_broker_that_is_away_is_a_failure_that_is_tried_again_under_the_same_id(
    own_store: StandaloneStore, broker: redis.Redis, make_job: MakeJob, worker: RunProcess, ran: Ran
) -> None:
    make_job("celery", "hotel.tasks.close", attempts=3, after_failure="retry", backoff_s=0)
    own_store.kill()
    run = ran()
    assert run.state == RunState.CLAIMED
    said = "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))
    assert "attempt 1: the broker of HBUS_JOB_BROKER does not take it" in said
    assert own_store.url.split("@")[0].rpartition(":")[2] not in said
    own_store.start()
    assert worker.run(run.pk) is RunState.DONE
    # Its answer was lost, and a worker does it again.
    JobRun.objects.filter(pk=run.pk).update(state=RunState.CLAIMED, ended_us=None)
    assert worker.run(run.pk) is RunState.DONE
    ids = [headers["id"] for headers, _ in messages(broker, "celery")]
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_two_runs_are_two_tasks(broker: redis.Redis, make_job: MakeJob, ran: Ran) -> None:
    make_job("celery", "hotel.tasks.close")
    ran()
    ran()
    assert len({headers["id"] for headers, _ in messages(broker, "celery")}) == 2


def test_a_broker_that_refuses_the_password_is_told_of_without_it(
    own_store: StandaloneStore, settings: Settings, make_job: MakeJob, ran: Ran
) -> None:
    port = own_store.url.rpartition(":")[2]
    settings.HBUS_JOB_BROKER = job_broker(f"redis://:hunter2-x@127.0.0.1:{port}")
    make_job("celery", "hotel.tasks.close")
    run = ran()
    assert run.state == RunState.FAILED
    assert "does not take it" in run.reason
    said = "".join(LogPiece.objects.filter(run=run.pk).values_list("text", flat=True))
    assert "hunter2" not in said + run.reason + run.summary


def test_where_nobody_names_a_broker_it_is_refused_and_what_is_there_fails_for_good(
    broker: redis.Redis, settings: Settings, make_job: MakeJob, ran: Ran
) -> None:
    make_job("celery", "hotel.tasks.close", attempts=3, after_failure="retry")
    settings.HBUS_JOB_BROKER = Broker("")
    run = ran()
    assert (run.state, run.reason) == (RunState.FAILED, "No broker is named that jobs may send tasks of Celery to.")
    with pytest.raises(BadInput) as refused:
        make_job("celery", "hotel.tasks.close", name="another")
    assert refused.value.field == "kind"
    assert "HBUS_JOB_BROKER" in refused.value.remedy


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    "options",
    [
        {"exchange": "x"},
        {"queue": 7},
        {"args": {"a": 1}},
        {"expires": 0},
        {"expires": "60"},
        {"priority": 256},
        {"time_limit": True},
    ],
)
def test_options_that_no_task_has_are_refused(make_job: MakeJob, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refused:
        make_job("celery", "hotel.tasks.close", options=options)
    assert refused.value.field == "options"
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", Broker("")),
        ("redis://:p@a/1", Broker("redis://:p@a/1")),
        ("rediss://:p@a/1", Broker("rediss://:p@a/1?ssl_cert_reqs=required")),
        ("amqp://u:p@a//", Broker("amqp://u:p@a//", {"confirm_publish": True})),
    ],
)
def test_a_broker_is_named_as_celery_names_it(url: str, said: Broker) -> None:
    assert job_broker(url) == said


def test_over_tls_the_certificate_of_the_host_is_asked_for() -> None:
    use_ssl = job_broker("amqps://u:p@a//").use_ssl
    assert use_ssl
    assert use_ssl["cert_reqs"]
    assert use_ssl["server_hostname"] is None


@pytest.mark.parametrize(
    "url",
    ["hunter2", "http://:hunter2@a", "amqp://u:hunter2@", "amqp://u:hunter2/x@a:b", "redis://:hunter2@a:b", "unix:///hunter2",
     "cluster://:hunter2@a,b"],
)  # fmt: skip
def test_what_is_no_broker_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        job_broker(url)
    assert refused.value.field == "HBUS_JOB_BROKER"
    assert refused.value.remedy
    assert "hunter2" not in str(refused.value)


def test_it_says_its_name() -> None:
    assert KINDS["celery"].words == "a Celery task"
