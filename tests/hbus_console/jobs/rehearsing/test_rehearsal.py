"""A span is played on its own clock: by the real protocol, once a slot, and unseen by those who live by another."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from engine.core.errors import BadInput, Conflict, Unavailable
from engine.core.leases import Lease
from engine.cron.slots.job import CronJob
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, SlotClaims
from engine.cron.slots.store import SlotStore
from hbus_console.access.permissions import SYSTEM
from hbus_console.accounts.models import User
from hbus_console.jobs.known import KnownJobs
from hbus_console.jobs.models import Job, JobCursor, JobRun, LogPiece
from hbus_console.jobs.rehearsing import rehearsal as module
from hbus_console.jobs.rehearsing.apart import PlayedSpan, give_back, set_apart
from hbus_console.jobs.rehearsing.crew import RehearsedWorkers
from hbus_console.jobs.rehearsing.mishaps import Death, Mishap
from hbus_console.jobs.services.jobs import change_job, resume_job
from hbus_console.wiring import store
from tests.hbus_console.jobs.rehearsing.conftest import BEGIN, TENTH_MINUTES, play, rehearsal
from tests.schema import without_constraint

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "ledger"])
NAME = "night.works"
Apart = Callable[..., list[CronJob]]
Effects = list[tuple[int, int]]


def rows() -> dict[int, JobRun]:
    return {run.slot: run for run in JobRun.objects.filter(job=NAME)}


def seconds(us: int | None, since: int) -> float:
    assert us is not None
    return round(us / 1_000_000 - since, 3)


def test_each_slot_is_done_once_at_its_time_and_takes_as_long_as_it_waits(apart: Apart, effects: Effects) -> None:
    play(apart(parameters={"takes_s": 90}))
    found = rows()
    assert sorted(found) == TENTH_MINUTES
    assert {run.state for run in found.values()} == {"done"}
    assert effects == [(600 * number, 1) for number in range(6)]
    for slot, run in found.items():
        assert (seconds(run.decided_us, slot), seconds(run.begun_us, slot), seconds(run.ended_us, slot)) == (0, 0, 90)
        assert (run.summary, run.version) == ("waited 90 s", 1)
    # Nodes take turns.
    assert {run.node for run in found.values()} == {"night-1", "night-2", "night-3"}


def test_a_run_that_lasts_longer_than_to_the_next_slot_meets_it(apart: Apart, effects: Effects) -> None:
    play(apart(parameters={"takes_s": 700}, overlap="skip"))
    found = [(run.state, run.reason) for _, run in sorted(rows().items())]
    assert found == [("done", ""), ("skipped", "another run of the job was running")] * 3
    assert len(effects) == 3


def test_one_that_waits_for_another_begins_when_that_ends(apart: Apart) -> None:
    play(apart(parameters={"takes_s": 700}, overlap="queue", catch_up_window_s=366 * 86_400))
    begun = [seconds(run.begun_us, BEGIN) for _, run in sorted(rows().items()) if run.state == "done"]
    assert begun == [0, 700, 1_400, 2_100, 2_800, 3_500]


def test_work_that_takes_longer_than_it_may_fails_and_its_log_says_so(apart: Apart) -> None:
    play(apart(parameters={"takes_s": 90}, timeout_s=60))
    run = rows()[BEGIN]
    assert (run.state, run.reason, seconds(run.ended_us, BEGIN)) == ("failed", "it took longer than 60 s", 60)
    assert "hbus: attempt 1: it took longer than 60 s" in LogPiece.objects.get(run=run.pk).text


def test_it_acts_by_the_rights_that_its_account_has_as_a_worker_does(apart: Apart, effects: Effects) -> None:
    jobs = apart()
    User.objects.create_user("anna", password="x")
    version = Job.objects.get(name=NAME).versions.get(number=jobs[0].version)
    version.settings["acts_as"] = "user:anna"
    version.save()
    play(jobs)
    assert effects == []
    told = {(run.state, run.reason) for run in rows().values()}
    assert told == {("failed", "anna may not make and edit jobs on night.works.")}


def test_a_slot_that_a_dead_node_had_claimed_is_decided_when_its_marker_has_run_out(
    apart: Apart, effects: Effects
) -> None:
    played = play(apart(), Mishap(BEGIN + 600, Death.CLAIMED, NAME))
    (told,) = played.happened
    assert told.says.endswith("was killed between claiming and deciding a slot of night.works")
    run = rows()[BEGIN + 600]
    assert 5 <= seconds(run.decided_us, run.slot) < 6
    assert run.node not in told.says
    assert len(effects) == 6


def test_a_run_that_a_dead_node_has_not_offered_is_offered_by_another(apart: Apart, effects: Effects) -> None:
    play(apart(), Mishap(BEGIN + 600, Death.DECIDED, NAME))
    run = rows()[BEGIN + 600]
    assert 10 <= seconds(run.begun_us, run.slot) <= 12
    assert (seconds(run.decided_us, run.slot), len(effects)) == (0, 6)


@pytest.mark.parametrize(("policy", "state", "attempts"), [({}, "lost lease", 1), ({"after_loss": "retry"}, "done", 2)])
def test_the_run_of_a_dead_worker_is_lost_with_its_lease_and_tried_again_where_the_job_says_so(
    apart: Apart, effects: Effects, policy: dict[str, str], state: str, attempts: int
) -> None:
    more = {"attempts": attempts, **policy}
    play(apart(parameters={"takes_s": 20}, **more), Mishap(BEGIN + 600, Death.AT_WORK, NAME))
    run = rows()[BEGIN + 600]
    assert (run.state, run.attempt) == (state, attempts)
    assert [attempt for slot, attempt in effects if slot == 600] == list(range(1, attempts + 1))
    # The lease, renewed in the middle of its work, and a lease more until it is certain.
    assert 60 <= seconds(run.ended_us, run.slot) <= 130


def test_nobody_else_ever_sees_a_run_that_is_offered(apart: Apart) -> None:
    seen: list[list[str]] = []
    jobs = apart(parameters={"takes_s": 700}, overlap="skip", after_loss="retry", attempts=2)
    mishaps = [Mishap(BEGIN + 600, Death.DECIDED, NAME), Mishap(BEGIN + 1_200, Death.AT_WORK, NAME)]

    def look(_: float) -> None:
        seen.append(list(JobRun.objects.filter(ended_us=None).values_list("state", flat=True)))

    assert rehearsal(jobs, mishaps).play(look, threading.Event())
    assert {state for states in seen for state in states} == {"running"}


def test_a_play_that_was_stopped_is_played_again_and_does_nothing_twice(apart: Apart, effects: Effects) -> None:
    stop = threading.Event()
    first = rehearsal(apart(parameters={"takes_s": 60}, after_loss="retry", attempts=3))
    # In the middle of the second run.
    assert not first.play(lambda share: stop.set() if share >= 600 / 3_600 else None, stop)
    assert [run.state for _, run in sorted(rows().items())] == ["done", "running"]

    play(apart(parameters={"takes_s": 60}, after_loss="retry", attempts=3))
    assert {run.state for run in rows().values()} == {"done"}
    assert sorted(rows()) == TENTH_MINUTES
    assert effects[:3] == [(0, 1), (600, 1), (600, 2)]
    before = list(effects)
    play(apart(parameters={"takes_s": 60}, after_loss="retry", attempts=3))
    assert effects == before


def test_nodes_of_the_installation_leave_it_alone_until_it_is_given_back(apart: Apart) -> None:
    (job,) = apart()
    row = Job.objects.get(name=NAME)
    assert (row.paused, row.pause_reason, job.held) == (True, "a simulated hour", "")
    assert list(KnownJobs().changes()) == []
    give_back([job])
    (known,) = KnownJobs().changes()
    assert known.job is not None
    assert known.job.held == "paused: a simulated hour"
    assert known.at > TENTH_MINUTES[-1]


def test_it_is_set_apart_again_whatever_was_done_to_it(apart: Apart) -> None:
    give_back(apart())
    assert apart()[0].version == 1
    resume_job(SYSTEM, NAME, "a mistake")
    assert (apart()[0].version, Job.objects.get(name=NAME).version) == (3, 4)
    change_job(SYSTEM, NAME, {"schedule": "0 4 * * *"}, "while it is paused")
    (job,) = apart()
    row = Job.objects.get(name=NAME)
    assert (row.schedule, row.paused, job.version, JobCursor.objects.get(job=NAME).version) == (
        "*/10 * * * *", True, row.version - 1, row.version - 1,
    )  # fmt: skip
    assert row.versions.get(number=job.version).settings["paused"] is False


def test_a_span_that_is_not_over_is_refused(apart: Apart) -> None:
    with pytest.raises(BadInput, match="is not over"):
        set_apart(SYSTEM, [], PlayedSpan(BEGIN, 4_000_000_000), "too early")


def test_one_plays_at_a_time(apart: Apart, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setattr("hbus_console.wiring.store.LEASE_S", 0.05)
    from django.conf import settings

    other = Lease(store.client(), settings.HBUS_PREFIX, module.LEASE, owner="another", ttl_s=60)
    assert other.acquire()
    with pytest.raises(Conflict, match="rehearsed already"):
        play(apart())
    assert rows() == {}


def test_while_the_store_is_away_the_clock_stands_still(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    away = [3, 3, 3]
    asked = {name: getattr(SlotStore, name) for name in ("claim", "acquire", "leases_held")}

    def unreliable(name: str, place: int) -> Callable[..., SlotClaims]:
        def ask(self: SlotStore, step: ClaimSlots | Acquire | LeasesHeld) -> SlotClaims:
            if away[place]:
                away[place] -= 1
                raise Unavailable("The store is away.")
            answer: SlotClaims = asked[name](self, step)
            return answer

        return ask

    for place, name in enumerate(asked):
        monkeypatch.setattr(SlotStore, name, unreliable(name, place))
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    play(apart(parameters={"takes_s": 60}))
    assert away == [0, 0, 0]
    assert {seconds(run.begun_us, slot) for slot, run in rows().items()} == {0}

    away[0] = 1_000_000
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    JobRun.objects.all().delete()
    with pytest.raises(Unavailable):
        play(apart(parameters={"takes_s": 60}))


def test_slots_that_cannot_be_decided_end_the_play(apart: Apart) -> None:
    jobs = apart()
    with (
        without_constraint(JobRun, "one_run_of_a_slot"),
        pytest.raises(Unavailable, match=r"The slots of 'night\.works' cannot be decided: .*ON CONFLICT"),
    ):
        play(jobs)


def test_a_run_that_nobody_begins_ends_the_play(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = apart()
    monkeypatch.setattr(RehearsedWorkers, "work", lambda self: None)
    monkeypatch.setattr(module, "STUCK_S", 600)
    with pytest.raises(Unavailable, match=r"of 'night\.works' is offered, and nobody begins it\."):
        play(jobs)
    assert not rows(), "what happens at one instant is kept whole or not at all"
