"""Spools that nobody empties, and a disk that runs short: one line with what it comes from, for who sees the job."""

from __future__ import annotations

import shutil

import pytest

from engine.bus import Message
from engine.bus.message import encode
from engine.core.clock import ManualClock
from engine.cron.subjects import job_subject
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.spool.files import paths_in
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.writer import SpoolWriter
from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.alerts.evaluation import AlertEvaluator
from hbus_console.alerts.models import Alert, Evaluation, Rule
from hbus_console.alerts.targets import Targets
from hbus_console.jobs.models import Job, JobRun
from hbus_console.jobs.services.jobs import pause_job
from hbus_console.overview.concerns import concerns
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.feature import JOB
from hbus_console.pipelines.services import archive_topic
from hbus_console.pipelines.spool_alerts import SPOOLS
from hbus_console.pipelines.spools import spool_root
from hbus_console.topics.models import Topic
from hbus_console.ui.concern import Concern, Look
from tests.hbus_console.pipelines.conftest import TOPIC, WHY, MakeUser

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def spooled(governor: Actor) -> Actor:
    """The topic is archived, and has a spool in which one message has waited for an hour."""
    archive_topic(governor, TOPIC, WHY)
    spool(NOW_MS - HOUR_MS, "1")
    return governor


def spool(at_ms: int, *ids: str) -> None:
    bodies = [encode(Message(id=each, source="/tests", type="t", data=b"1")) for each in ids]  # type: ignore[arg-type]
    writer = SpoolWriter(spool_root(), TOPIC, ManualClock(at_ms))
    with writer.held():
        writer.append([Spooled(f"{int(each):016x}", body) for each, body in zip(ids, bodies, strict=True)])
    writer.close()


def archive() -> None:
    run_archive(wanted_topics([]), in_this_process)


def evaluated(now_ms: int = NOW_MS, disk: float = 101) -> dict[str, float]:
    """What fires by now, by its kind."""
    for kind, threshold in (("spool_waits", 900.0), ("spool_disk", disk)):
        Rule.objects.update_or_create(name=kind, kind=kind, defaults={"threshold": threshold, "clear_s": 0})
    Evaluation.objects.update_or_create(pk=1, defaults={"at_ms": now_ms, "watching_ms": now_ms - 120_000})
    AlertEvaluator(clock=ManualClock(now_ms)).tick()
    rows = Alert.objects.filter(state=Alert.State.FIRING)
    assert {row.subject for row in rows} <= {job_subject(JOB)}
    return {row.kind: row.value for row in rows}


def told(who: Actor, now_ms: int = NOW_MS) -> Concern:
    (line,) = (each for each in lines(who, now_ms) if "spool" in each.text)
    return line


def lines(who: Actor, now_ms: int = NOW_MS) -> list[Concern]:
    return concerns(Look(who, now_ms))


def ran(state: str, **how: object) -> JobRun:
    ended = None if state in ("claimed", "running") else NOW_MS * 1000
    at = JobRun.objects.count() + 60
    return JobRun.objects.create(
        job=JOB, version=1, slot=at, state=state, decided_us=1, changed_us=1, ended_us=ended, **how
    )


def test_it_fires_on_the_oldest_that_is_not_archived(spooled: Actor) -> None:
    assert evaluated() == {"spool_waits": 3_600}
    archive()
    assert evaluated(NOW_MS + 1) == {}
    spool(NOW_MS + 10, "2")
    assert evaluated(NOW_MS + 899_000) == {}
    assert evaluated(NOW_MS + 10 + 900_000) == {"spool_waits": 900}


def test_without_a_spool_there_is_nothing_to_watch(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    assert Targets([SPOOLS]).of(SPOOLS) == ()
    spool(NOW_MS, "1")
    (target,) = Targets([SPOOLS]).of(SPOOLS)
    assert target.team_id == Topic.objects.get(name=TOPIC).team_id


def test_the_disk_is_that_of_the_spools(spooled: Actor) -> None:
    usage = shutil.disk_usage(spool_root())
    percent = 100 * usage.used / (usage.used + usage.free)
    found = evaluated(disk=0.1)
    assert found["spool_disk"] == pytest.approx(percent, abs=2)


def test_it_is_one_line_with_its_cause_and_what_to_do(spooled: Actor) -> None:
    evaluated(disk=0.1)
    pause_job(SYSTEM, JOB, WHY)
    line = told(spooled)
    assert line.text == "What NSQ carried is spooled and not archived"
    assert line.note.startswith("the oldest has waited for 1 h")
    assert f"{JOB} is held: paused: {WHY} · resume it, or name its owner" in line.note
    assert "its disk is full to " in line.note
    assert line.href == f"/jobs/{JOB}/"
    assert not [each for each in lines(spooled) if "spool_disk" in each.text or "spool_waits" in each.text]


def test_the_cause_is_what_the_runs_tell(spooled: Actor) -> None:
    evaluated()
    resume = f"{JOB} has no run under way · is a cron node alive, and does its schedule come?"
    assert resume in told(spooled).note
    failed = ran("failed", reason="the lake is gone")
    assert f"run {failed.pk} failed: the lake is gone · mend what its log says" in told(spooled).note
    assert told(spooled).href == f"/jobs/{JOB}/runs/{failed.pk}/"
    ran("skipped", reason="another runs")
    assert f"run {failed.pk} failed" in told(spooled).note
    done = ran("done")
    assert done.pk > failed.pk
    assert resume in told(spooled).note
    goes_on = ran("running", begun_us=1)
    assert f"run {goes_on.pk} is under way" in told(spooled).note
    JobRun.objects.filter(pk=goes_on.pk).update(state="claimed")
    assert f"run {goes_on.pk} waits for a worker · start one" in told(spooled).note
    Job.objects.filter(name=JOB).delete()
    assert f"there is no job {JOB} · have any topic archived again" in told(spooled).note
    archive_topic(spooled, TOPIC, WHY)
    assert Job.objects.filter(name=JOB).exists()


def test_a_full_disk_alone_is_told_for_itself(spooled: Actor) -> None:
    archive()
    assert list(evaluated(disk=0.1)) == ["spool_disk"]
    line = told(spooled)
    assert line.text == "The disk of the spool runs short"
    assert "once nothing fits, nsqd keeps what comes" in line.note
    assert line.href == "/archive/"


def test_only_who_sees_the_job_is_told(spooled: Actor, make_user: MakeUser) -> None:
    evaluated()
    of_topic = actor_of(make_user("viewer", TOPIC, "one"))
    assert not [each for each in lines(of_topic) if "spool" in each.text]
    assert told(actor_of(make_user("viewer", "hbus.*", "own"))).text


def test_a_spool_that_cannot_be_read_leaves_the_alert_as_it_is(spooled: Actor) -> None:
    assert evaluated() == {"spool_waits": 3_600}
    (path,) = paths_in(spool_root() / TOPIC)
    whole = path.read_bytes()
    path.write_bytes(b"x" * len(whole))
    assert evaluated(NOW_MS + 1_000) == {"spool_waits": 3_600}
    path.write_bytes(whole)
    assert evaluated(NOW_MS + 2_000) == {"spool_waits": 3_602}
