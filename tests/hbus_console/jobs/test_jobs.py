"""Jobs are made, changed, held, restored and deleted, each with its trace, and no slot falls through a change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.core.errors import BadInput, Conflict, NotThere, Outdated
from engine.cron.slots.job import AfterFailure, JobPolicy
from engine.cron.slots.planning import MOST_AT_ONCE, Decision
from engine.cron.slots.steps import Begin, Cursor, End, Opening, OpenRuns, RunState
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.drafts.agreement import disagreements
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.models import Job, JobCursor, JobRun
from hbus_console.jobs.services.draft import SETTINGS, JobDraft
from hbus_console.jobs.services.jobs import (
    change_job,
    create_job,
    delete_job,
    pause_job,
    restore_version,
    resume_job,
)
from hbus_console.jobs.undecided import UNDECIDED
from hbus_console.teams.models import Team
from tests.hbus_console.topics.conftest import actor

pytestmark = pytest.mark.django_db
NOW = 1_790_000_000.5
DRAFT = JobDraft("close-of-day", "ops", "http", "https://1.1.1.1/close", "* * * * *", zone="Europe/Lisbon")


@pytest.fixture
def admin_actor() -> Actor:
    return actor(Role.ADMIN)


@pytest.fixture
def made(admin_actor: Actor) -> Job:
    Team.objects.create(name="ops", contact="#ops")
    return create_job(admin_actor, DRAFT, "the day must be closed", now_s=lambda: NOW)


def cursor() -> tuple[int, int]:
    row = JobCursor.objects.get(job=DRAFT.name)
    return row.version, row.at


def trace() -> list[str]:
    return list(AuditEntry.objects.filter(target_type="job").order_by("seq").values_list("action", flat=True))


def test_a_job_whose_exclusions_leave_it_nothing_is_refused(admin_actor: Actor, made: Job) -> None:
    with pytest.raises(BadInput, match="leaves nothing of the schedule: none within 100 years") as caught:
        change_job(admin_actor, made.name, {"excluded": "Mon-Sun"}, "holidays")
    assert caught.value.field == "excluded"
    # What runs by hand or after others alone has no slot to begin with
    change_job(admin_actor, made.name, {"excluded": "Mon-Sun", "schedule": "@never"}, "by hand")
    with pytest.raises(BadInput, match="leaves nothing"):
        change_job(admin_actor, made.name, {"schedule": "0 0 29 2 1"}, "by day")


def test_its_settings_have_their_columns() -> None:
    assert disagreements(SETTINGS, Job) == []


def test_a_job_counts_its_slots_from_when_it_was_made(made: Job) -> None:
    assert cursor() == (1, int(NOW))
    assert trace() == ["job.create"]
    (version,) = made.versions.all()
    assert (version.number, version.settings["schedule"], version.settings["owner"]) == (1, "* * * * *", "ops")
    assert version.audit_seq == AuditEntry.objects.get(action="job.create").seq


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"schedule": "61 * * * *"}, "schedule"),
        ({"schedule": ""}, "schedule"),
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"owner": "nobody"}, "owner"),
        ({"name": "Close"}, "name"),
        ({"gap": "jump"}, "gap"),
        ({"lease_s": 1}, "lease_s"),
        ({"after_loss": "retry"}, "attempts"),
        ({"after_failure": "retry"}, "attempts"),
        ({"overlap": "jump"}, "overlap"),
        ({"overlap": "queue", "most_at_once": 2}, "most_at_once"),
        ({"backoff_s": 60, "backoff_most_s": 59}, "backoff_most_s"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field_and_leaves_nothing(
    admin_actor: Actor, wrong: dict[str, object], field: str
) -> None:
    Team.objects.create(name="ops", contact="#ops")
    with pytest.raises(BadInput) as refused:
        create_job(admin_actor, replace(DRAFT, **wrong))  # type: ignore[arg-type]
    assert (refused.value.field, bool(refused.value.remedy)) == (field, True)
    assert not Job.objects.exists()
    assert not JobCursor.objects.exists()


def test_a_name_is_taken_once(made: Job, admin_actor: Actor) -> None:
    with pytest.raises(Conflict):
        create_job(admin_actor, DRAFT)


def test_a_change_makes_a_version_that_nodes_notice(made: Job, admin_actor: Actor) -> None:
    changed = change_job(admin_actor, made.name, {"lease_s": 60}, version=1, now_s=lambda: NOW + 5)
    assert (changed.version, cursor()) == (2, (2, int(NOW)))
    assert [version.settings["lease_s"] for version in changed.versions.all()] == [60, 30]
    # The same again changes nothing.
    assert change_job(admin_actor, made.name, {"lease_s": 60}).version == 2
    assert trace() == ["job.create", "job.change"]
    with pytest.raises(Outdated):
        change_job(admin_actor, made.name, {"lease_s": 90}, version=1)
    with pytest.raises(BadInput, match="no setting 'colour'"):
        change_job(admin_actor, made.name, {"colour": "red"})


def test_another_schedule_counts_from_its_change_and_tells_of_what_nobody_decided(
    made: Job, admin_actor: Actor
) -> None:
    change_job(admin_actor, made.name, {"schedule": "0 3 * * *"}, now_s=lambda: NOW + 150)
    assert cursor() == (2, int(NOW + 150))
    told = list(JobRun.objects.order_by("slot").values_list("slot", "version", "state", "reason"))
    assert told == [(slot, 1, "skipped", UNDECIDED) for slot in (1_790_000_040, 1_790_000_100)]


def test_a_pause_tells_of_what_came_before_it_and_its_end_of_what_came_meanwhile(made: Job, admin_actor: Actor) -> None:
    pause_job(admin_actor, made.name, "a release", now_s=lambda: NOW + 90)
    resume_job(admin_actor, made.name, now_s=lambda: NOW + 150)
    assert cursor() == (3, int(NOW + 150))
    told = list(JobRun.objects.order_by("slot").values_list("slot", "version", "reason"))
    assert told == [(1_790_000_040, 1, UNDECIDED), (1_790_000_100, 2, "paused: a release")]


def test_who_gets_an_owner_again_catches_up_with_nothing(made: Job, admin_actor: Actor) -> None:
    change_job(admin_actor, made.name, {"owner": ""}, "the team is gone", now_s=lambda: NOW + 1)
    change_job(admin_actor, made.name, {"owner": "ops"}, "it is back", now_s=lambda: NOW + 70)
    assert list(JobRun.objects.values_list("slot", "reason")) == [(1_790_000_040, "nobody owns the job")]


def test_a_schedule_that_nobody_can_read_any_more_can_be_paused_and_mended(made: Job, admin_actor: Actor) -> None:
    Job.objects.filter(pk=made.pk).update(schedule="no such thing")
    assert pause_job(admin_actor, made.name, "what is this").paused
    assert change_job(admin_actor, made.name, {"schedule": "@daily"}, now_s=lambda: NOW + 150).schedule == "@daily"
    assert cursor() == (3, max(cursor()[1], int(NOW + 150)))
    assert not JobRun.objects.exists()


def test_of_very_many_slots_that_nobody_decided_the_last_row_tells_of_the_rest(made: Job, admin_actor: Actor) -> None:
    change_job(admin_actor, made.name, {"schedule": "@daily"}, now_s=lambda: NOW + 60 * (MOST_AT_ONCE + 100))
    reasons = list(JobRun.objects.order_by("slot").values_list("reason", flat=True))
    assert len(reasons) == MOST_AT_ONCE
    assert reasons[:-1] == [UNDECIDED] * (MOST_AT_ONCE - 1)
    assert reasons[-1].startswith(f"{UNDECIDED}, nor those after it until 2026-")


def test_a_node_of_the_version_before_decides_nothing_after_a_change(made: Job, admin_actor: Actor) -> None:
    opening = Opening(Cursor(made.name, 1, int(NOW)), (Decision(1_790_000_040),))
    change_job(admin_actor, made.name, {"lease_s": 60}, now_s=lambda: NOW + 150)
    assert SlotJudge(lambda: NOW + 150).open_runs(OpenRuns((opening,), "n1")).cursors == ()


def test_it_is_paused_with_a_note_and_resumed(made: Job, admin_actor: Actor) -> None:
    with pytest.raises(BadInput):
        pause_job(admin_actor, made.name, " ")
    assert pause_job(admin_actor, made.name, "the ledger is closed").pause_reason == "the ledger is closed"
    assert pause_job(admin_actor, made.name, "again").version == 2
    resumed = resume_job(admin_actor, made.name)
    assert (resumed.paused, resumed.pause_reason, resumed.version) == (False, "", 3)
    assert resume_job(admin_actor, made.name).version == 3
    assert trace() == ["job.create", "job.pause", "job.resume"]


def test_an_earlier_version_is_restored_as_a_new_one(made: Job, admin_actor: Actor) -> None:
    change_job(admin_actor, made.name, {"schedule": "0 3 * * *", "grace_s": 5}, now_s=lambda: NOW + 1)
    pause_job(admin_actor, made.name, "a look")
    back = restore_version(admin_actor, made.name, 1, "it was right before", now_s=lambda: NOW + 2)
    assert (back.version, back.schedule, back.grace_s, back.paused) == (4, "* * * * *", 30, True)
    assert trace()[-1] == "job.restore"
    with pytest.raises(NotThere):
        restore_version(admin_actor, made.name, 9, "why not")
    with pytest.raises(BadInput):
        restore_version(admin_actor, made.name, 1, "")


def test_its_owner_is_governance_and_takes_a_reason(made: Job, admin_actor: Actor) -> None:
    editor = actor(Role.EDITOR)
    assert change_job(editor, made.name, {"grace_s": 9}).grace_s == 9
    with pytest.raises(Forbidden):
        change_job(editor, made.name, {"owner": ""}, "it is nobody's")
    with pytest.raises(BadInput):
        change_job(admin_actor, made.name, {"owner": ""})
    assert change_job(admin_actor, made.name, {"owner": ""}, "it is nobody's").team is None


def test_deleted_it_leaves_its_runs_and_what_waited_is_told(made: Job, admin_actor: Actor) -> None:
    judge = SlotJudge(lambda: NOW + 70)
    slots = (Decision(1_790_000_040), Decision(1_790_000_041, "late"))
    judge.open_runs(OpenRuns((Opening(Cursor(made.name, 1, int(NOW)), slots),), "n1"))
    with pytest.raises(BadInput):
        delete_job(admin_actor, made.name, "close", "no more")
    delete_job(admin_actor, made.name, made.name, "no more", now_s=lambda: NOW + 80)
    assert not Job.objects.exists()
    assert not JobCursor.objects.exists()
    told = JobRun.objects.order_by("slot").values_list("state", "reason")
    assert list(told) == [("skipped", "the job was deleted"), ("skipped", "late")]
    with pytest.raises(NotThere):
        change_job(admin_actor, made.name, {"grace_s": 9})


def test_deleted_it_leaves_what_failed_once_as_failed(made: Job, admin_actor: Actor) -> None:
    judge, again = SlotJudge(lambda: NOW + 70), JobPolicy(after_failure=AfterFailure.RETRY, attempts=2)
    (row,) = judge.open_runs(
        OpenRuns((Opening(Cursor(made.name, 1, int(NOW)), (Decision(1_790_000_040),)),), "n1")
    ).rows
    judge.begin(Begin(row.id, 1, "w1", again))
    judge.end(End(row.id, 1, RunState.FAILED, again))
    delete_job(admin_actor, made.name, made.name, "no more", now_s=lambda: NOW + 80)
    run = JobRun.objects.get()
    assert (run.state, run.reason, run.ended_us) == ("failed", "the job was deleted", round((NOW + 80) * 1_000_000))


@pytest.mark.parametrize("act", ["create", "change", "pause", "resume", "restore", "delete"])
def test_who_may_only_look_changes_nothing(made: Job, act: str) -> None:
    viewer = actor(Role.VIEWER)
    acts = {
        "create": lambda: create_job(viewer, replace(DRAFT, name="another")),
        "change": lambda: change_job(viewer, made.name, {"grace_s": 9}),
        "pause": lambda: pause_job(viewer, made.name, "why not"),
        "resume": lambda: resume_job(viewer, made.name),
        "restore": lambda: restore_version(viewer, made.name, 1, "why not"),
        "delete": lambda: delete_job(viewer, made.name, made.name, "why not"),
    }
    with pytest.raises(Forbidden):
        acts[act]()
    # Nor does anybody learn by the kind of refusal which jobs there are.
    if act == "change":
        with pytest.raises(Forbidden):
            change_job(viewer, "never-made", {"grace_s": 9})
