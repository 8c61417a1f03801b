"""The lake is rolled up into the database: whole days, each once, and kept as long as settings say."""

from __future__ import annotations

import json
import re
from collections import Counter
from io import StringIO

import pytest
from django.core.management import call_command
from pytest_django import Settings

from engine.core.clock import ManualClock, SystemClock
from engine.core.errors import NotThere
from engine.core.resolution import Resolution
from engine.cron.work.functions import find_function
from engine.pipeline.archive.tasks import in_this_process
from engine.pipeline.lake.compaction import FAN
from engine.pipeline.rollup import rolling as engine_rolling
from hbus_console.access.permissions import Actor
from hbus_console.evidence.series_retention import SeriesRetention
from hbus_console.jobs.models import Job
from hbus_console.pipelines import archiving, job_functions
from hbus_console.pipelines.archiving import run_archive, wanted_topics
from hbus_console.pipelines.feature import ROLLUP_JOB
from hbus_console.pipelines.live import cells
from hbus_console.pipelines.models import ArchivedTopic, RolledUp, SeriesPoint
from hbus_console.pipelines.rolling import roll_up
from hbus_console.pipelines.services import archive_topic
from hbus_console.pipelines.upkeep import keep_up
from hbus_console.topics.models import Topic
from tests.hbus_console.pipelines.conftest import OTHER, TOPIC, publish
from tests.hbus_console.pipelines.ledger import AT, book, published, settled

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

WHY = "charts are asked for"
DAY_S = 86_400


@pytest.fixture
def archived(governor: Actor) -> Actor:
    """Forty messages of now, and twenty that the ledger tells of, of a day of its own."""
    archive_topic(governor, TOPIC, WHY)
    book(*(published(number) for number in range(20)), *(settled(number) for number in range(15)))
    run_archive(wanted_topics([]), in_this_process)
    return governor


def everything() -> list[dict[str, object]]:
    """But for the numbers of rows."""
    names = [each.name for each in SeriesPoint._meta.fields if each.name != "id"]
    return list(SeriesPoint.objects.order_by("topic", "subscription", "resolution", "at").values(*names))


def test_a_day_of_the_ledger_is_rolled_up(archived: Actor) -> None:
    done = roll_up(clock=ManualClock(AT))

    assert (done.days, done.files) == ({TOPIC: RolledUp.objects.count()}, 3)
    day = SeriesPoint.objects.get(topic=TOPIC, subscription="", resolution="day", at=AT // 1000 // DAY_S * DAY_S)
    assert (day.published, day.settled, day.timed) == (20, 15, 15)
    assert day.longest_ms == 5
    of_it = SeriesPoint.objects.get(topic=TOPIC, subscription="billing", resolution="day")
    assert (of_it.published, of_it.settled, of_it.longest_ms) == (0, 15, 5)
    total = Counter[str]()
    for point in SeriesPoint.objects.filter(subscription="", topic=TOPIC):
        total[point.resolution] += point.stored
    assert total == {each.value: 40 for each in Resolution}
    assert [str(point.subject) for point in (day, of_it)] == [f"topic:{TOPIC}", f"subscription:{TOPIC}/billing"]


def marks_of(topic: str = TOPIC) -> tuple[int, int]:
    found: tuple[int, int] = ArchivedTopic.objects.values_list("archived_upto_ms", "rolled_upto_ms").get(
        topic__name=topic
    )
    return found


def test_how_far_a_topic_is_rolled_up_is_known_where_nothing_came(governor: Actor) -> None:
    archive_topic(governor, TOPIC, WHY)
    archive_topic(governor, OTHER, WHY)
    run_archive(wanted_topics([TOPIC]), in_this_process, clock=ManualClock(AT))
    assert (marks_of(), marks_of(OTHER)) == ((AT, 0), (0, 0))
    roll_up(clock=ManualClock(AT + 5))
    run_archive(wanted_topics([]), in_this_process, clock=ManualClock(AT + 60_000))
    # A run that began before it and ended after it takes nothing back.
    run_archive(wanted_topics([]), in_this_process, clock=ManualClock(AT + 30_000))
    assert (marks_of(), marks_of(OTHER)) == ((AT + 60_000, AT), (AT + 60_000, 0))
    assert roll_up(clock=ManualClock(AT + 90_000)).days == {}
    assert (marks_of(), marks_of(OTHER)) == ((AT + 60_000, AT + 60_000),) * 2


def test_nobody_says_how_far_a_topic_is_that_is_not_read_whole(
    governor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_topic(governor, TOPIC, WHY)
    monkeypatch.setattr(archiving, "spooled_on", lambda topic: ["nsq"])
    for waiting, known in ((3, 0), (None, 0), (0, AT)):
        monkeypatch.setattr(archiving, "unspooled_of", lambda topic, waiting=waiting: waiting)
        run_archive(wanted_topics([]), in_this_process, clock=ManualClock(AT))
        assert marks_of()[0] == known
    Topic.objects.filter(name=TOPIC).update(leaving="memory")
    run_archive(wanted_topics([]), in_this_process, clock=ManualClock(AT + 5))
    assert marks_of()[0] == AT


def test_twice_makes_the_same_and_writes_nothing(archived: Actor) -> None:
    roll_up(clock=ManualClock(AT))
    before, marks = everything(), list(RolledUp.objects.values())
    assert roll_up(clock=ManualClock(AT)).days == {}
    assert (everything(), list(RolledUp.objects.values())) == (before, marks)
    # What was forgotten of it is made again, and is there already.
    RolledUp.objects.all().delete()
    assert roll_up(clock=ManualClock(AT)).points == 0
    assert everything() == before


def test_one_that_is_killed_half_way_is_as_if_it_had_not_been(archived: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(5, "payment.taken")
    archive_topic(archived, "payment.taken", WHY)
    run_archive(wanted_topics([]), in_this_process)
    whole = engine_rolling.series_of
    calls: list[int] = []

    def killed(*args: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_rolling, "series_of", killed)
    with pytest.raises(KeyboardInterrupt):
        roll_up(clock=ManualClock(AT))
    half = everything()
    assert RolledUp.objects.count() == 1
    roll_up(clock=ManualClock(AT))
    after = everything()
    assert len(after) > len(half)
    SeriesPoint.objects.all().delete()
    RolledUp.objects.all().delete()
    roll_up(clock=ManualClock(AT))
    assert everything() == after


def test_merged_files_change_no_point(archived: Actor) -> None:
    for _ in range(FAN):
        publish(3)
        run_archive(wanted_topics([]), in_this_process)
    roll_up()
    before = everything()
    assert keep_up().compacted.made
    assert roll_up().points == 0
    assert everything() == before


def test_points_that_are_true_no_more_go(archived: Actor) -> None:
    clock = ManualClock(AT)
    roll_up(clock=clock)
    before = everything()
    SeriesPoint.objects.create(topic=TOPIC, subscription="gone", resolution="hour", at=AT // 1000, settled=3)
    SeriesPoint.objects.filter(subscription="billing").update(settled=99)
    RolledUp.objects.update(digest="of something else")
    # Those of the three resolutions that billing had, and the one that is nobody's.
    assert roll_up(clock=clock).points == 4
    assert everything() == before


def test_points_finer_than_is_kept_are_not_made(archived: Actor, settings: Settings) -> None:
    settings.HBUS_SERIES_MINUTE_DAYS, settings.HBUS_SERIES_HOUR_DAYS = 1, 3
    roll_up(clock=ManualClock(AT + 2 * DAY_S * 1000))
    of_day = SeriesPoint.objects.filter(at__lt=AT // 1000 + DAY_S, subscription="billing")
    assert sorted(of_day.values_list("resolution", flat=True)) == ["day", "hour"]


def test_retention_takes_what_is_older_than_is_kept_and_no_day(topic: object) -> None:
    today_s = AT // 1000 // DAY_S * DAY_S
    for resolution in Resolution:
        for back in range(5):
            SeriesPoint.objects.create(topic=TOPIC, resolution=resolution.value, at=today_s - back * DAY_S, stored=1)
    SeriesRetention("series", SeriesPoint.objects.all(), 2, 3, clock=ManualClock(AT)).tick()
    kept = Counter(SeriesPoint.objects.values_list("resolution", flat=True))
    assert kept == {"minute": 2, "hour": 3, "day": 5}


def test_a_job_does_it_that_comes_with_the_first_archived_topic(archived: Actor) -> None:
    job = Job.objects.get(name=ROLLUP_JOB)
    assert (job.kind, job.target, job.acts_as) == ("function", ROLLUP_JOB, "system")
    assert find_function(ROLLUP_JOB).name == ROLLUP_JOB
    assert job_functions.roll_up.__doc__
    job.delete()
    archive_topic(archived, TOPIC, WHY)
    assert Job.objects.filter(name=ROLLUP_JOB).exists()


def command(*words: str) -> str:
    out = StringIO()
    call_command("archive", "rollup", *words, stdout=out)
    return out.getvalue()


def test_the_command_says_what_it_did(archived: Actor) -> None:
    assert re.fullmatch(r"\d days? of 1 topic: [\d,]+ points changed, 3 files read\.\n", command())
    assert command() == "Nothing was other than before.\n"
    assert json.loads(command("--json")) == {"days": {}, "points": 0, "files": 0}
    with pytest.raises(NotThere, match=r"nothing of payment\.taken"):
        command("payment.taken")


def test_pages_are_told(archived: Actor) -> None:
    now_ms = SystemClock().now_ms()
    assert cells(now_ms, ("*",)).marks["series"] == 0
    roll_up(clock=ManualClock(AT))
    assert RolledUp.objects.latest("at_ms").at_ms == AT
