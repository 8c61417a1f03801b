"""The dry run of a trigger."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from engine.core.errors import BadInput, NotThere
from engine.cron.slots.parts import shards
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs import busy
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.part_words import part_words
from hbus_console.jobs.services import triggering
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import pause_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from tests.hbus_console.jobs.conftest import MakeJob
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NAME = "close-of-day"
WAITS = {"job": "other", "version": 1, "state": "claimed", "decided_us": 1, "changed_us": 1}


@pytest.fixture(autouse=True)
def _nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggering, "offer", lambda _: None)


@pytest.fixture
def operator() -> Actor:
    return actor(Role.OPERATOR)


def told(who: Actor, asked: Trigger = Trigger()) -> dict[str, tuple[str, str]]:  # noqa: B008 - it is a tuple
    before = JobRun.objects.count(), AuditEntry.objects.count()
    found = {each.label: (each.said, each.tone) for each in foresee(who, NAME, asked)}
    assert (JobRun.objects.count(), AuditEntry.objects.count()) == before
    return found


def running(state: str = "running", key: str = "k") -> JobRun:
    return JobRun.objects.create(
        job=NAME, version=1, slot=1, kind="manual", key=key, state=state, decided_us=1, changed_us=1, epoch=1
    )


def test_what_it_does_and_by_whose_rights_and_that_nobody_works(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/", attempts=3, after_failure="retry")
    found = told(operator)
    assert found["does"] == ("an HTTP call: https://1.1.1.1/", "")
    assert found["by the rights of"] == ("hbus itself", "")
    assert found["begins"] == ("at once: no other run of it is running", "")
    assert found["workers"][1] in ("bad", "warn")
    assert found["stopped after"] == ("3,600 s", "")
    assert found["tried"] == ("up to 3 times", "")


@pytest.mark.parametrize(
    ("policy", "said", "tone"),
    [
        ({"overlap": "run"}, "at once, beside 1 other run of it", ""),
        ({"overlap": "skip"}, "not at all: another run of the job was running", "bad"),
        ({"overlap": "skip", "manual_runs": "free"}, "at once, beside 1 other run of it", ""),
        ({"overlap": "skip", "overlap_on": "node"}, "at once on a node where none of it runs", "warn"),
        ({"overlap": "queue"}, "once run {} has ended", "warn"),
        ({"overlap": "cancel"}, "once run {} has ended, which is told to stop", "warn"),
        ({"overlap": "run", "most_at_once": 2}, "at once, beside run {}", ""),
    ],
)
def test_how_it_would_meet_another_run(
    make_job: MakeJob, operator: Actor, policy: dict[str, object], said: str, tone: str
) -> None:
    make_job("http", "https://1.1.1.1/", **policy)
    other = running()
    assert told(operator)["begins"] == (said.format(other.pk), tone)


def test_each_part_is_judged_by_itself(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/", overlap="skip", division="shards", shards=3)
    first, *others = shards(3)
    running()
    JobRun.objects.update(part=first)
    begins = [(each.said, each.tone) for each in foresee(operator, NAME, Trigger()) if each.label == "begins"]
    assert begins == [
        (f"not at all: another run of the job was running ({part_words(first)})", "bad"),
        (f"at once: no other such run is running ({', '.join(map(part_words, others))})", ""),
    ]
    assert told(operator, Trigger(part=others[0]))["begins"] == ("at once: no other such run is running", "")


def test_a_key_of_somebody_else_is_refused_as_the_trigger_would(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/")
    trigger(operator, NAME, Trigger(None, "why", "k1"))
    with pytest.raises(BadInput, match="which somebody else asked for"):
        told(actor(Role.ADMIN), Trigger(None, "", "k1"))


def test_rights_that_are_gone_a_pause_and_who_follows_are_told(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/")
    make_job("http", "https://1.1.1.1/", "invoice", after=NAME)
    pause_job(actor(Role.ADMIN), NAME, "the ledger is closed")
    Job.objects.filter(name=NAME).update(acts_as="user:gone")
    found = told(operator)
    assert found["by the rights of"][0].startswith("gone, and would fail: gone may do nothing any more")
    assert found["by the rights of"][1] == "bad"
    assert found["paused"] == ("a run that is asked for runs all the same", "")
    assert found["then run"] == ("invoice on success", "warn")


def test_a_key_that_made_a_run_makes_no_other(make_job: MakeJob, operator: Actor) -> None:
    make_job("http", "https://1.1.1.1/")
    made = trigger(operator, NAME, Trigger(None, "why", "k1")).run
    assert told(operator, Trigger(None, "", "k1")) == {
        "the key": (f"has made run {made.pk} already: nothing new would run", "warn")
    }


def test_what_a_trigger_would_refuse_is_refused(make_job: MakeJob, operator: Actor) -> None:
    make_job(
        "http", "https://1.1.1.1/", parameters={"n": 1}, parameters_schema={"properties": {"n": {"type": "integer"}}}
    )
    with pytest.raises(BadInput, match="do not fit"):
        told(operator, Trigger({"n": "many"}))
    with pytest.raises(Forbidden):
        told(actor(Role.VIEWER))
    with pytest.raises(NotThere):
        foresee(operator, "no-such-job", Trigger())


def test_page_api_and_command_say_the_same(make_job: MakeJob, signed_in: Callable[..., Client]) -> None:
    make_job("http", "https://1.1.1.1/")
    client, out = signed_in(Role.OPERATOR), StringIO()
    body = client.post(f"/api/v1/jobs/{NAME}/trigger/dry-run", {}, content_type="application/json").json()
    call_command("job", "trigger", NAME, "--dry-run", "--json", stdout=out)
    assert body["foreseen"] == json.loads(out.getvalue())
    page = client.post(f"/jobs/{NAME}/trigger/dry-run/", {"parameters": "{}"}).content.decode()
    for each in body["foreseen"]:
        assert each["label"] in page
    assert "Nothing has happened." in page
    assert (
        "cannot be read as JSON" in client.post(f"/jobs/{NAME}/trigger/dry-run/", {"parameters": "{"}).content.decode()
    )
    assert JobRun.objects.count() == 0


def test_where_all_workers_are_busy_nothing_begins_at_once(
    make_job: MakeJob, operator: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("http", "https://1.1.1.1/")
    make_job("http", "https://1.1.1.1/", "other")
    busy_workers(monkeypatch, slots=2, doing=1)
    assert told(operator)["begins"] == ("at once: no other run of it is running", "")
    busy_workers(monkeypatch, slots=2, doing=2)
    begins = "when a worker is free (all 2 slots are busy): no other run of it is running"
    assert told(operator)["begins"] == (begins, "warn")
    for slot in (1, 2):
        JobRun.objects.create(slot=slot, **WAITS)
    # Not due, told to wait for another, and for one machine that is not meant: none of these is before it.
    JobRun.objects.create(slot=2**40, **WAITS)
    JobRun.objects.create(slot=3, waits=True, **WAITS)
    begins = "when a worker is free (all 2 slots are busy, and 2 runs wait before it): no other run of it is running"
    assert told(operator)["begins"] == (begins, "warn")
    # A slot is free, and is taken by who came before.
    busy_workers(monkeypatch, slots=2, doing=1)
    assert told(operator)["begins"][0].startswith("when a worker is free (there are 2, and 2 runs wait before it)")


def test_what_the_job_itself_hinders_is_told_as_that_also_while_workers_are_busy(
    make_job: MakeJob, operator: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("http", "https://1.1.1.1/", overlap="skip")
    running()
    busy_workers(monkeypatch, slots=1, doing=1)
    assert told(operator)["begins"][0].startswith("not at all")


def test_a_part_waits_for_the_workers_of_its_machine(
    make_job: MakeJob, operator: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("http", "https://1.1.1.1/")
    busy_workers(monkeypatch, slots=1, doing=1)
    assert busy.room_for(["@vm"]) == "when a worker on vm is free (its one slot is busy)"
    assert busy.room_for([""]) == "when a worker is free (its one slot is busy)"


def test_what_waits_is_counted_where_it_lies_however_many_machines_are_asked(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    """Found by a reviewer: a backlog was loaded whole, once for each node."""
    busy_workers(monkeypatch, slots=1, doing=1)
    for slot, part in enumerate(("", "3/8", "@vm", "@vm", "@web")):
        JobRun.objects.create(slot=slot, part=part, **WAITS)
    with django_assert_num_queries(1) as asked:
        said = busy.room_for(["@vm", "@web"])
    assert said == "when a worker on vm is free (its one slot is busy, and 4 runs wait before it)"
    assert "COUNT(" in asked[0]["sql"]
    assert busy.room_for([""]).endswith("and 2 runs wait before it)")
    # Each machine is asked for, with what waits for it.
    by_host = {"a": busy.Workers(1, 9, ()), "web": busy.Workers(1, 3, ())}
    monkeypatch.setattr(busy, "workers_of", lambda host="": by_host[host])
    with django_assert_num_queries(1):
        assert busy.room_for(["@a", "@web"]).startswith("when a worker on web is free (there are 3, and 3 runs wait")


def busy_workers(monkeypatch: pytest.MonkeyPatch, slots: int, doing: int) -> None:
    runs = tuple(JobRun(pk=900 + number, job="other") for number in range(doing))
    monkeypatch.setattr(busy, "workers_of", lambda host="": busy.Workers(1, slots, runs))
