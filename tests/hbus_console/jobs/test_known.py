"""What a node learns of the jobs, and when."""

from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from engine.cron.simulation.models import ModelStore
from engine.cron.slots.driving import acts
from engine.cron.slots.job import AfterFailure, AfterLoss, CatchUp, JobPolicy, Overlap
from engine.cron.slots.node import Changed, CronNode
from engine.cron.slots.steps import ClaimSlots, Offer, OpenRuns, ReadCursors, RunState
from hbus_console.access.permissions import SYSTEM
from hbus_console.jobs.judge import SlotJudge
from hbus_console.jobs.known import KnownJobs, cron_job, schedule_of, schedule_said
from hbus_console.jobs.models import Job, JobCursor, JobRun, JobVersion
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.jobs.services.jobs import create_job, delete_job
from hbus_console.teams.models import Team
from tests.hbus_console.jobs.conftest import MakeJob

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
AT = 1_790_000_000


def job(name: str, schedule: str = "0 3 * * *", **columns: object) -> Job:
    """As the service that makes one will leave it."""
    made = Job.objects.create(name=name, schedule=schedule, team=Team.objects.get_or_create(name="ops")[0], **columns)
    JobCursor.objects.create(job=name, version=made.version, at=AT)
    JobVersion.objects.create(job=made, number=made.version, settings={}, audit_seq=1)
    return made


def change(made: Job, **columns: object) -> None:
    for name, value in columns.items():
        setattr(made, name, value)
    made.version += 1
    made.save()
    JobCursor.objects.filter(job=made.name).update(version=made.version, at=AT + 60)
    JobVersion.objects.create(job=made, number=made.version, settings={}, audit_seq=2)


def told(node: KnownJobs) -> dict[str, Changed]:
    return {changed.name: changed for changed in node.changes()}


def versions(changes: dict[str, Changed]) -> dict[str, tuple[int, int]]:
    return {name: (it.at, it.job.version) for name, it in changes.items() if it.job is not None}


def test_all_jobs_at_first_and_then_those_that_changed() -> None:
    close, _ = job("close"), job("rates", "*/5 * * * *")
    node = KnownJobs()
    assert versions(told(node)) == {"close": (AT, 1), "rates": (AT, 1)}
    assert told(node) == {}
    change(close, schedule="0 4 * * *")
    job("invoice", "0 1 1 * *")
    assert versions(told(node)) == {"close": (AT + 60, 2), "invoice": (AT, 1)}
    assert told(node) == {}
    assert told(KnownJobs()).keys() == {"close", "rates", "invoice"}


def test_a_change_that_was_committed_late_is_found() -> None:
    late = job("late")
    entry = JobVersion.objects.get()
    JobVersion.objects.filter(pk=entry.pk).delete()
    Job.objects.filter(pk=late.pk).update(name="not yet there")
    close = job("close")
    node = KnownJobs()
    told(node)
    # It has a smaller number than what was read.
    Job.objects.filter(pk=late.pk).update(name="late")
    entry.save(force_insert=True)
    change(close)
    assert told(node).keys() == {"late", "close"}


def test_a_job_whose_change_is_half_seen_is_told_the_next_time() -> None:
    close = job("close")
    JobCursor.objects.filter(job="close").update(version=2)
    node = KnownJobs()
    assert told(node) == {}
    change(close)
    assert told(node).keys() == {"close"}


def test_a_job_that_cannot_be_read_is_told_as_that_and_keeps_no_other_from_being_read() -> None:
    lost = job("a lost zone", zone="Mars/Olympus")
    job("close")
    node = KnownJobs()
    assert {name: it.job is None for name, it in told(node).items()} == {"a lost zone": True, "close": False}
    assert "'Mars/Olympus' is no time zone." in node.unreadable["a lost zone"]
    change(lost, zone="UTC")
    assert [it.job is None for it in told(node).values()] == [False]
    assert node.unreadable == {}


def test_its_policies_are_those_of_its_row() -> None:
    made = job(
        "close",
        grace_s=1,
        catch_up="all",
        catch_up_window_s=2,
        catch_up_most=3,
        overlap="run",
        most_at_once=6,
        lease_s=4,
        after_loss="retry",
        after_failure="retry",
        attempts=5,
        backoff_s=7,
        backoff_most_s=8,
    )
    catch_up, overlap = (1, CatchUp.ALL, 2, 3), (Overlap.RUN, 6)
    expected = JobPolicy(*catch_up, *overlap, 4, AfterLoss.RETRY, AfterFailure.RETRY, 5, 7, 8)
    assert cron_job(made).policy == expected
    assert cron_job(job("usual")).policy == JobPolicy()


def test_what_nobody_owns_or_somebody_paused_is_held() -> None:
    made = job("close")
    assert (made.held, cron_job(made).held) == ("", "")
    made.paused, made.pause_reason = True, "the ledger is closed"
    assert cron_job(made).held == "paused: the ledger is closed"
    made.paused, made.team = False, None
    assert made.held == cron_job(made).held == "nobody owns the job"


def test_jobs_of_one_schedule_share_it_unless_it_spreads_by_their_names() -> None:
    same = [cron_job(job(name, "*/5 * * * *")).slots for name in ("a", "b")]
    assert same[0] is same[1]
    said = {"schedule": "*/5 * * * *", "zone": "UTC", "gap": "end", "fold": "first"}
    assert schedule_said("c", said) is same[0]
    assert schedule_said("spread", {**said, "schedule": "H * * * *"}) is schedule_of(job("spread", "H * * * *"))
    spread = {cron_job(job(f"h{number}", "H * * * *")).slots.next_after(AT) for number in range(10)}
    assert len(spread) > 3


def test_only_what_is_asked_for_is_read(django_assert_max_num_queries: object) -> None:
    for number in range(5):
        job(f"job{number}")
    node = KnownJobs()
    told(node)
    with django_assert_max_num_queries(3):  # type: ignore[operator]
        assert told(node) == {}


def test_a_job_that_is_made_anew_under_its_name_is_another(make_job: MakeJob) -> None:
    """Whoever knew the old one hears of the end of it, and takes no version of the new one for what it knew."""
    make_job("http", "https://1.1.1.1/", "rates", schedule="30 * * * *")
    node, slow = KnownJobs(), KnownJobs()
    assert told(node)["rates"].job is not None
    told(slow)
    delete_job(SYSTEM, "rates", "rates", "gone")
    assert told(node) == {"rates": Changed("rates", None)}
    assert told(node) == {}
    made = make_job("http", "https://1.1.1.1/", "rates", schedule="*/10 * * * *")
    assert (made.version, JobCursor.objects.get().version) == (2, 2)
    for each in (node, slow):
        found = told(each)["rates"].job
        assert found is not None
        assert found.version == 2
        assert told(each) == {}
    delete_job(SYSTEM, "rates", "rates", "again")
    assert make_job("http", "https://1.1.1.1/", "rates").version == 3


def test_runs_of_a_job_that_was_deleted_before_that_was_kept_tell_its_last_version(make_job: MakeJob) -> None:
    JobRun.objects.create(job="rates", version=7, slot=1, state=RunState.DONE, decided_us=1, changed_us=1)
    assert make_job("http", "https://1.1.1.1/", "rates").version == 8


def test_a_node_that_has_not_heard_yet_decides_no_slot_of_the_new_job(make_job: MakeJob) -> None:
    clock = ManualClock()

    def now() -> float:
        return clock.now_ms() / 1000

    store, judge = ModelStore(), SlotJudge(now)
    act = acts(
        {
            ClaimSlots: lambda step: store.claim(step, now()),
            ReadCursors: judge.read_cursors,
            OpenRuns: judge.open_runs,
            Offer: lambda step: None,
        }
    )

    def live(hours: int) -> None:
        for _ in range(hours * 180):
            node.tick()
            clock.advance(20)

    def make(schedule: str) -> None:
        create_job(SYSTEM, JobDraft("rates", "ops", "http", "https://1.1.1.1/", schedule), now_s=now)

    Team.objects.get_or_create(name="ops", defaults={"contact": "#ops"})
    make("30 * * * *")
    node = CronNode("old", act, KnownJobs().changes, now, clock)
    live(2)
    delete_job(SYSTEM, "rates", "rates", "gone", now_s=now)
    make("*/10 * * * *")
    made = int(now())
    live(3)
    slots = JobRun.objects.filter(slot__gt=made).order_by("slot").values_list("slot", flat=True)
    assert list(slots) == list(range(made // 600 * 600 + 600, int(now()) + 1, 600))[: len(slots)]
    assert len(slots) >= 17
