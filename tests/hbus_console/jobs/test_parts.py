"""Jobs whose slots are done in shards, or on every node: made, decided, triggered, followed, and told of."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django.test import Client

from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from engine.cron.slots.job import CronJob, JobPolicy
from engine.cron.slots.planning import decide, divided
from engine.cron.slots.steps import (
    Begin,
    Beginning,
    Cursor,
    End,
    Ending,
    GiveUp,
    Offer,
    Opening,
    OpenRuns,
    ReadOpen,
    RunState,
)
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.alerts import FailuresInARow
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import cron_job
from hbus_console.jobs.models import Job, JobCursor, JobRun
from hbus_console.jobs.recent import newest_runs
from hbus_console.jobs.services import triggering
from hbus_console.jobs.services.foreseeing import foresee
from hbus_console.jobs.services.jobs import change_job
from hbus_console.jobs.services.triggering import Trigger, trigger
from hbus_console.jobs.standing import JobFilters, found_jobs, job_rows
from hbus_console.jobs.workers import working_nodes
from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
NAME, NOW_S = "close-of-day", 1_790_000_000.25
SLOT = 1_790_000_000


@pytest.fixture(autouse=True)
def _programs(settings: object) -> None:
    settings.HBUS_JOB_COMMANDS = ("true",)  # type: ignore[attr-defined]


@pytest.fixture
def judge() -> SlotJudge:
    return SlotJudge(lambda: NOW_S)


@pytest.fixture
def thirds(make_job: MakeJob) -> Job:
    return make_job("command", "true", division="shards", shards=3)


def decided(judge: SlotJudge, job: CronJob, slot: int = SLOT, nodes: tuple[str, ...] = ()) -> list[JobRun]:
    cursor = JobCursor.objects.get(job=job.name)
    decisions = tuple(divided(job, decide(job, [slot], slot + 0.5), nodes))
    judge.open_runs(OpenRuns((Opening(Cursor(job.name, job.version, cursor.at), decisions),), "n1"))
    return list(JobRun.objects.filter(job=job.name, slot=slot).order_by("pk"))


def ended(judge: SlotJudge, run: JobRun, state: RunState, policy: JobPolicy) -> Ending:
    assert judge.begin(Begin(run.pk, 1, "web-1:jobs:0:7#a", policy)) is Beginning.BEGUN
    return judge.end(End(run.pk, 1, state, policy, "exit code 1" if state is RunState.FAILED else ""))


def test_all_parts_of_a_slot_are_opened_by_one_decision_and_each_once(thirds: Job, judge: SlotJudge) -> None:
    job = cron_job(thirds)
    assert [run.part for run in decided(judge, job)] == ["0/3", "1/3", "2/3"]
    # As one who has read the cursor before the others moved it.
    JobCursor.objects.update(at=SLOT - 1)
    assert len(decided(judge, job)) == 3


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"division": "shards"}, "shards"),
        ({"shards": 4}, "shards"),
        ({"division": "nodes", "shards": 4}, "shards"),
        ({"division": "halves"}, "division"),
        ({"division": "shards", "shards": 101}, "shards"),
        ({"division": "nodes", "after": "other"}, "after"),
    ],
)
def test_what_cannot_be_divided_so_is_refused(make_job: MakeJob, more: dict[str, object], field: str) -> None:
    make_job("command", "true", "other")
    with pytest.raises(BadInput) as refused:
        make_job("command", "true", **more)
    assert refused.value.field == field


def test_a_message_is_not_published_in_parts(make_job: MakeJob, topic: object) -> None:
    with pytest.raises(BadInput) as refused:
        make_job("publish", "booking", options={"type": "t"}, division="shards", shards=2)
    assert refused.value.field == "division"


def test_what_is_for_a_node_is_begun_by_its_workers_alone(make_job: MakeJob, judge: SlotJudge) -> None:
    job = cron_job(make_job("command", "true", division="nodes"))
    one, two = decided(judge, job, nodes=("web-1", "web-2"))
    assert judge.begin(Begin(two.pk, 1, "web-1:jobs:0:7#a", job.policy)) is Beginning.REFUSED
    two.refresh_from_db()
    assert (two.state, two.epoch) == ("claimed", 0)
    assert judge.begin(Begin(two.pk, 2, "web-2:jobs:0:7#a", job.policy)) is Beginning.BEGUN
    assert judge.begin(Begin(one.pk, 1, "web-1:jobs:1:7#a", job.policy)) is Beginning.BEGUN


def test_a_part_that_waited_is_offered_to_its_node_when_the_same_part_ends(make_job: MakeJob, judge: SlotJudge) -> None:
    job = cron_job(make_job("command", "true", division="nodes", overlap="queue"))
    nodes = ("web-1", "web-2")
    first, other = decided(judge, job, nodes=nodes)
    assert judge.begin(Begin(first.pk, 1, "web-1:jobs:0:7#a", job.policy)) is Beginning.BEGUN
    assert judge.begin(Begin(other.pk, 1, "web-2:jobs:0:7#a", job.policy)) is Beginning.BEGUN
    second, _ = decided(judge, job, SLOT + 60, nodes)
    assert judge.begin(Begin(second.pk, 1, "web-1:jobs:0:7#b", job.policy)) is Beginning.WAITS
    assert judge.end(End(other.pk, 1, RunState.DONE, job.policy)) == Ending(RunState.DONE)
    assert judge.end(End(first.pk, 1, RunState.DONE, job.policy)) == Ending(
        RunState.DONE, (second.pk,), {second.pk: "web-1"}
    )


@pytest.mark.parametrize(
    ("states", "then"),
    [
        ((RunState.DONE, RunState.DONE, RunState.DONE), "invoice"),
        ((RunState.DONE, RunState.FAILED, RunState.DONE), "page-somebody"),
    ],
)
def test_who_follows_runs_once_all_parts_are_over(
    thirds: Job, make_job: MakeJob, judge: SlotJudge, states: tuple[RunState, ...], then: str
) -> None:
    make_job("command", "true", "invoice", schedule="@never", after=NAME, division="shards", shards=2)
    make_job("command", "true", "page-somebody", schedule="@never", after=f"{NAME} failure")
    runs, policy = decided(judge, cron_job(thirds)), cron_job(thirds).policy
    for run, state in zip(runs[:2], states[:2], strict=True):
        assert ended(judge, run, state, policy).next == ()
    told = ended(judge, runs[2], states[2], policy)
    made = JobRun.objects.filter(kind="after").order_by("pk")
    assert {run.job for run in made} == {then}
    assert [run.part for run in made] == (["0/2", "1/2"] if then == "invoice" else [""])
    assert (told.next, {run.key for run in made}) == (tuple(run.pk for run in made), {f"run-{runs[0].pk}"})


def test_a_whole_of_which_a_part_never_ran_has_ended_and_not_in_success(
    thirds: Job, make_job: MakeJob, judge: SlotJudge
) -> None:
    for name, after in (("invoice", "success"), ("page-somebody", "failure"), ("clean-up", "any")):
        make_job("command", "true", name, schedule="@never", after=f"{NAME} {after}")
    runs, policy = decided(judge, cron_job(thirds)), cron_job(thirds).policy
    JobRun.objects.filter(pk=runs[0].pk).update(state=RunState.SKIPPED, ended_us=1, reason="another run was running")
    for run in runs[1:]:
        ended(judge, run, RunState.DONE, policy)
    made = JobRun.objects.get(kind="after")
    assert (made.job, made.asked_why.rpartition(": ")[2]) == ("clean-up", "skipped")
    # As the pages say.
    assert newest_runs([NAME], 5)[NAME][0].state == RunState.SKIPPED


def test_who_follows_also_runs_where_the_last_part_is_given_up_or_cancelled(
    thirds: Job, make_job: MakeJob, judge: SlotJudge
) -> None:
    make_job("command", "true", "clean-up", schedule="@never", after=f"{NAME} any")
    runs, policy = decided(judge, cron_job(thirds)), cron_job(thirds).policy
    ended(judge, runs[0], RunState.DONE, policy)
    assert judge.request_cancel(runs[1].pk, "ana cancelled it")
    rows, _ = judge.read_open(ReadOpen())
    assert not JobRun.objects.filter(kind="after").exists()
    assert judge.give_up(GiveUp(rows[0], RunState.ABANDONED, "no worker began it"))
    assert JobRun.objects.get(kind="after").asked_why.endswith("ended: abandoned")


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[Offer]:
    found: list[Offer] = []
    monkeypatch.setattr(triggering, "offer", found.append)
    return found


def test_a_trigger_makes_a_run_of_each_part_once_for_a_key(
    thirds: Job, offered: list[Offer], django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        made = trigger(SYSTEM, NAME, Trigger(reason="why", key="k"))
    again = trigger(SYSTEM, NAME, Trigger(reason="why", key="k"))
    assert [made.run.part, *(run.part for run in made.others)] == ["0/3", "1/3", "2/3"]
    assert made.words == f"3 runs, {made.run.pk} and more,"
    assert (again.new, again.run, again.others) == (False, made.run, made.others)
    assert offered == [Offer((made.run.pk, *(run.pk for run in made.others)))]


def test_one_part_alone_may_be_triggered_and_none_that_is_not_there(thirds: Job) -> None:
    made = trigger(SYSTEM, NAME, Trigger(reason="why", part="1/3"))
    assert (made.run.part, made.others) == ("1/3", ())
    for part in ("3/3", "@web-1", "0/2"):
        with pytest.raises(BadInput) as refused:
            trigger(SYSTEM, NAME, Trigger(reason="why", part=part))
        assert refused.value.field == "part"
    said = {each.label: each.said for each in foresee(SYSTEM, NAME, Trigger())}
    assert said["runs"] == "3 runs: shard 0 of 3, shard 1 of 3, shard 2 of 3"


def test_on_every_node_that_lives_and_where_none_does_it_is_refused(
    make_job: MakeJob, settings: object, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_job("command", "true", division="nodes")
    prefix = settings.HBUS_PREFIX  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match="none is alive"):
        trigger(SYSTEM, NAME, Trigger(reason="why"))
    clock = ManualClock()
    monkeypatch.setattr("hbus_console.jobs.workers.SystemClock", lambda: clock)
    roles = ("web-1:jobs:0", "web-2:jobs:0", "web-2:jobs:1", "web-3:cron:0")
    beats = [NodeBeat(store.client(), prefix, name=name, role=name.split(":")[1], clock=clock) for name in roles]
    for beat in beats:
        beat.beat()
    assert working_nodes(store.client(), prefix) == ("web-1", "web-2")
    made = trigger(SYSTEM, NAME, Trigger(reason="why"))
    assert [run.part for run in (made.run, *made.others)] == ["@web-1", "@web-2"]
    # Who has been silent is not waited for.
    clock.advance(60.0)
    beats[0].beat()
    assert working_nodes(store.client(), prefix) == ("web-1",)
    for beat in beats:
        beat.stop()


def test_a_slot_of_which_one_part_failed_has_failed(thirds: Job, judge: SlotJudge) -> None:
    job = cron_job(thirds)
    runs = decided(judge, job)
    for run, state in zip(runs, (RunState.FAILED, RunState.DONE, RunState.DONE), strict=True):
        ended(judge, run, state, job.policy)
    (row,) = job_rows([thirds], round(NOW_S * 1_000_000))
    assert (row.state, len(row.runs), row.runs[0].part) == ("failing", 1, "0/3")
    assert [job.name for job in found_jobs(SYSTEM, JobFilters(state="failing"))] == [NAME]
    assert FailuresInARow().read(1) == {NAME: 1}
    # A slot of many parts hides none behind it.
    JobRun.objects.filter(part="0/3").delete()
    assert [run.part for run in newest_runs([NAME], 1)[NAME]] in (["1/3"], ["2/3"])


def test_a_run_says_which_part_it_does_and_leads_to_the_others(
    thirds: Job, judge: SlotJudge, signed_in: Callable[..., Client]
) -> None:
    runs = decided(judge, cron_job(thirds))
    page = signed_in(Role.OPERATOR)
    html = page.get(f"/jobs/{NAME}/runs/{runs[1].pk}/").content.decode()
    assert "shard 1 of 3" in html
    assert f'href="/jobs/{NAME}/runs/{runs[0].pk}/"' in html
    assert '<option value="1/3" selected>' in html
    assert "shard 2 of 3" in page.get("/runs/").content.decode()
    assert "waits for a worker" in html
    JobRun.objects.update(slot=int(time.time()))
    # One slot, whatever its parts.
    whole = " ".join(page.get("/jobs/").content.decode().split())
    assert "1 slot of today was decided · 1 of them is not over" in whole
    narrowed = " ".join(page.get("/jobs/?q=zzz").content.decode().split())
    assert "1 slot of today was decided in all jobs that you may see" in narrowed


def test_a_job_becomes_divided_by_a_change_and_what_was_open_stays_whole(make_job: MakeJob, judge: SlotJudge) -> None:
    whole = make_job("command", "true")
    (before,) = decided(judge, cron_job(whole))
    changed = change_job(SYSTEM, NAME, {"division": "shards", "shards": 2}, "more at once")
    assert [run.part for run in decided(judge, cron_job(changed), SLOT + 60)] == ["0/2", "1/2"]
    assert judge.begin(Begin(before.pk, 1, "web-1:jobs:0:7#a", cron_job(changed).policy)) is Beginning.BEGUN
