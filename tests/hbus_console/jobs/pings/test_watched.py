"""A job that runs elsewhere beside all else there is of jobs: no worker, no button and no lease is its."""

from __future__ import annotations

import time
from typing import Any

import pytest

from engine.core.errors import BadInput
from engine.cron.slots.job import CatchUp
from engine.cron.slots.node import CronNode
from engine.cron.slots.steps import Begin, Beginning, GiveUp, Offer, ReadRun, RunState
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.jobs.as_code import apply as apply_change
from hbus_console.jobs.as_code import plan, read_jobs
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import KnownJobs, policy_of
from hbus_console.jobs.models import Job, JobCursor, JobRun, PingAddress
from hbus_console.jobs.pings.ping import PingWord
from hbus_console.jobs.places import places
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import change_job, create_job, delete_job, restore_version
from hbus_console.jobs.services.leases import release_lease
from hbus_console.jobs.services.pings import address_of, renew_address
from hbus_console.jobs.services.triggering import Trigger, cancel_run, trigger
from hbus_console.wiring.cron import slot_store
from tests.hbus_console.jobs.pings.conftest import HOUR, NAME, WHERE, Bell, MakeBell
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_a_node_decides_its_slots_and_gives_them_to_no_worker(make_bell: MakeBell) -> None:
    """With the store and the clocks that there are; only the end of the grace is not waited for."""
    make_bell(schedule="* * * * *", grace_s=86_400)
    now_s = int(time.time())
    JobCursor.objects.update(at=now_s - 180)
    offered: list[int] = []
    slots, later_s = slot_store(), 0.0

    def offer(step: Offer) -> None:
        offered.extend(step.runs)

    act = places(slots, SlotJudge(lambda: time.time() + later_s), offer, tuple)
    node = CronNode("n1", act, KnownJobs().changes, slots.time)
    node.tick()
    node.sweep()
    found = list(JobRun.objects.order_by("slot"))
    assert len(found) == 3
    assert {run.state for run in found} == {"claimed"}
    later_s = 86_400 + 300
    node.sweep()
    assert set(JobRun.objects.values_list("state", flat=True)) == {"abandoned"}
    assert offered == []


def test_its_policy_waits_for_every_slot(bell: Bell) -> None:
    policy = policy_of(bell.job)
    assert (policy.elsewhere, policy.timeout_s, policy.catch_up) == (True, 1_800, CatchUp.ALL)


def test_no_worker_begins_a_run_of_it(bell: Bell) -> None:
    bell.decide(1)
    run = JobRun.objects.get()
    assert SlotJudge().begin(Begin(run.pk, 1, "w", policy_of(bell.job))) is Beginning.REFUSED
    run.refresh_from_db()
    assert run.state == RunState.CLAIMED


def test_it_is_not_triggered_and_the_refusal_says_where_to(bell: Bell) -> None:
    with pytest.raises(BadInput) as refused:
        trigger(actor(Role.OPERATOR), NAME, Trigger(reason="now"))
    assert (refused.value.field, refused.value.remedy) == ("job", f"Start it there: {WHERE}.")
    assert bell.rows() == []


@pytest.mark.parametrize("word", [PingWord.LOG, PingWord.START], ids=["waits", "runs"])
def test_a_run_that_is_cancelled_is_waited_for_no_longer(bell: Bell, word: PingWord) -> None:
    run = bell.ping(1, word)
    cancelled = cancel_run(actor(Role.OPERATOR), NAME, run.pk, "the host is gone")
    assert (cancelled.state, cancelled.reason) == ("cancelled", "a-operator cancelled it: the host is gone")
    if word is PingWord.START:
        # What runs elsewhere went on: its end is told of there, and changes nothing.
        assert (bell.ping(10).pk, bell.ping(11).kind) == (run.pk, JobRun.Kind.PING)
        run.refresh_from_db()
        assert run.state == "cancelled"
    assert bell.ping(20).kind == JobRun.Kind.PING


def test_nobody_has_a_lease_of_its_runs(bell: Bell) -> None:
    run = bell.ping(1, PingWord.START)
    with pytest.raises(BadInput, match="runs elsewhere"):
        release_lease(SYSTEM, NAME, run.pk, "stuck")


def test_with_the_job_goes_its_address_and_what_was_waited_for(bell: Bell) -> None:
    bell.ping(1, PingWord.START)
    bell.decide(3_601)
    delete_job(SYSTEM, NAME, NAME, "no longer", now_s=lambda: HOUR + 3_700.0)
    assert bell.rows() == [("schedule", 0, "cancelled"), ("schedule", 3_600, "skipped")]
    assert not PingAddress.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"overlap": "queue"}, "overlap"),
        ({"options": {"a": "b"}}, "options"),
        ({"parameters": {"a": "b"}}, "parameters"),
        ({"parameters_schema": {"type": "object"}}, "parameters_schema"),
        ({"catch_up": "all"}, "catch_up"),
        ({"lease_s": 60}, "lease_s"),
        ({"attempts": 2, "after_failure": "retry"}, "after_failure"),
        ({"target": "x" * 201}, "target"),
        ({"target": " "}, "target"),
    ],
)
def test_what_means_nothing_to_it_is_refused_at_its_field(bell: Bell, wrong: dict[str, Any], field: str) -> None:
    draft = {"name": "other", "owner": "ops", "kind": "elsewhere", "target": WHERE, "schedule": "@daily", **wrong}
    with pytest.raises(BadInput) as refused:
        create_job(SYSTEM, JobDraft(**draft))
    assert (refused.value.field, bool(refused.value.remedy)) == (field, True)
    assert PingAddress.objects.count() == 1


def test_it_stays_elsewhere_and_no_other_goes_there(bell: Bell) -> None:
    with pytest.raises(BadInput) as refused:
        change_job(SYSTEM, NAME, {"kind": "http", "target": "https://1.1.1.1/"})
    assert refused.value.field == "kind"
    create_job(SYSTEM, JobDraft("here", "ops", "http", "https://1.1.1.1/", "@daily"))
    with pytest.raises(BadInput) as refused:
        change_job(SYSTEM, "here", {"kind": "elsewhere", "target": "there"})
    assert refused.value.field == "kind"
    change_job(SYSTEM, NAME, {"grace_s": 60})
    assert restore_version(SYSTEM, NAME, 1, "longer").grace_s == 600


def test_its_address_is_for_who_may_change_it_and_its_renewal_is_told(bell: Bell) -> None:
    for role in (Role.VIEWER, Role.OPERATOR):
        with pytest.raises(Forbidden):
            address_of(actor(role), NAME)
        with pytest.raises(Forbidden):
            renew_address(actor(role), NAME, "leaked")
    with pytest.raises(BadInput, match="needs a reason"):
        renew_address(actor(Role.EDITOR), NAME, " ")
    before = bell.code
    after = renew_address(actor(Role.EDITOR), NAME, "it stood in a mail").code
    assert after != before
    assert address_of(actor(Role.EDITOR), NAME).code == after
    entry = AuditEntry.objects.get(action="job.renew_ping")
    assert (entry.reason, entry.after) == ("it stood in a mail", {"pinged_at": "a new address"})


def test_nothing_that_is_kept_of_it_holds_the_code(bell: Bell) -> None:
    renew_address(SYSTEM, NAME, "for good measure")
    kept = [*AuditEntry.objects.values(), *JobRun.objects.values(), *bell.job.versions.values()]
    assert bell.code not in repr(kept)


def test_a_job_that_we_do_has_no_address(bell: Bell) -> None:
    create_job(SYSTEM, JobDraft("here", "ops", "http", "https://1.1.1.1/", "@daily"))
    with pytest.raises(BadInput) as refused:
        address_of(SYSTEM, "here")
    assert refused.value.field == "job"


FILE = """
defaults: {owner: ops, zone: Europe/Lisbon}
jobs:
  - {name: backup, kind: elsewhere, target: "db1:/etc/cron.d/backup", schedule: "0 3 * * *", grace_s: 1800}
"""


def test_a_file_makes_it_changes_it_and_leaves_its_address(bell: Bell) -> None:
    before = bell.code
    (planned,) = plan(SYSTEM, read_jobs(FILE))
    assert [name for name, _, _ in planned.differs] == ["schedule", "timeout_s", "zone", "grace_s"]
    apply_change(SYSTEM, planned, "as the file says")
    assert (bell.job.grace_s, bell.code) == (1_800, before)
    apply_change(SYSTEM, plan(SYSTEM, read_jobs(FILE.replace("backup, kind", "other, kind")))[0], "new")
    assert PingAddress.objects.filter(job__name="other").exists()
    with pytest.raises(BadInput) as refused:
        plan(
            SYSTEM,
            read_jobs(FILE.replace('elsewhere, target: "db1:/etc/cron.d/backup"', 'http, target: "https://1.1.1.1/"')),
        )
    assert refused.value.field == "jobs.backup.kind"


def test_a_ping_that_comes_while_a_node_looks_is_not_overruled(bell: Bell) -> None:
    bell.decide(1)
    judge = SlotJudge(lambda: HOUR + 601.0)
    seen = judge.read_run(ReadRun(JobRun.objects.get().pk))
    assert seen is not None
    bell.ping(599)
    assert not judge.give_up(GiveUp(seen, RunState.ABANDONED, "no ping came"))
    assert bell.rows() == [("schedule", 0, "done")]


def test_what_runs_elsewhere_is_told_from_what_runs_here(bell: Bell) -> None:
    here, there = create_job(SYSTEM, JobDraft("here", "ops", "http", "https://1.1.1.1/", "@daily")), bell.job
    assert (here.elsewhere, there.elsewhere) == (False, True)
    assert list(Job.objects.elsewhere()) == [there]
    assert not Job.objects.filter(name="here").elsewhere()
