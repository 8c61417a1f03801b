"""A job elsewhere that is silent, that fails and that takes long raises an alert of its own, and ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.clock import ManualClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts.models import Alert
from hbus_console.jobs.models import JobCursor
from hbus_console.jobs.pings.ping import PingWord
from hbus_console.jobs.services.jobs import pause_job
from tests.hbus_console.alerts.conftest import Watch, rule
from tests.hbus_console.jobs.pings.conftest import HOUR, Bell, MakeBell

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
#: Seconds from one look of the evaluator to the next, of which the last ten are its own: after a minute it was away.
LOOK_S = 50
At = Callable[[float], list[str]]


@pytest.fixture
def bell(make_bell: MakeBell) -> Bell:
    return make_bell()


@pytest.fixture
def at(bell: Bell) -> At:
    """The states of the alerts so many seconds after the hour; nodes and the evaluator look all the while."""
    clock = ManualClock((HOUR - 400) * 1_000)
    watch = Watch(clock)

    def look(seconds: float) -> list[str]:
        while (left_s := HOUR + seconds - clock.now_ms() / 1_000) > 0:
            clock.advance(max(0.0, min(left_s, LOOK_S) - 10))
            bell.decide(clock.now_ms() / 1_000 + 10 - HOUR)
            bell.sweep(clock.now_ms() / 1_000 + 10 - HOUR)
            watch.go(None)
        return watch.states()

    return look


def test_one_that_is_silent_past_its_grace_is_told_of_until_it_is_heard(bell: Bell, at: At) -> None:
    rule("job_silent", 120, clear_s=0)
    rule("job_failures", 1, clear_s=0)
    assert at(500) == []
    assert at(700) == []
    assert at(750) == ["firing"]
    assert Alert.objects.get().kind == "job_silent"
    assert at(4_000) == ["firing"]
    assert Alert.objects.get().value == pytest.approx(4_000 - 600, abs=30)
    bell.ping(4_050)
    assert at(4_100) == ["resolved"]
    # The next slot was heard in its time.
    assert at(7_000) == ["resolved"]


def test_a_slot_that_waits_within_its_grace_is_no_silence(bell: Bell, at: At) -> None:
    rule("job_silent", 60, clear_s=0)
    assert at(590) == []
    bell.ping(595, PingWord.START)
    assert at(900) == []


def test_a_slot_that_no_node_decides_is_told_of_after_the_grace(bell: Bell, at: At) -> None:
    rule("job_silent", 120, clear_s=0)
    JobCursor.objects.update(at=HOUR - 1)
    bell.decide = lambda _: None  # type: ignore[method-assign]
    assert at(650) == []
    assert at(800) == ["firing"]


def test_a_failure_is_told_of_as_a_failure(bell: Bell, at: At) -> None:
    rule("job_silent", 60, clear_s=0)
    rule("job_failures", 1, clear_s=0)
    bell.ping(10, PingWord.FAILURE)
    assert at(700) == ["firing"]
    assert Alert.objects.get().kind == "job_failures"
    bell.ping(710)
    assert at(740) == ["resolved"]


def test_a_beginning_without_an_end_takes_long_and_then_fails(bell: Bell, at: At) -> None:
    rule("job_long", 900, clear_s=0)
    rule("job_failures", 1, clear_s=0)
    bell.ping(10, PingWord.START)
    assert at(600) == []
    assert at(1_000) == ["firing"]
    assert Alert.objects.get().kind == "job_long"
    assert at(1_900) == ["resolved", "firing"]
    assert Alert.objects.last().kind == "job_failures"  # type: ignore[union-attr]


def test_one_that_is_paused_may_be_silent(bell: Bell, at: At) -> None:
    rule("job_silent", 60, clear_s=0)
    rule("job_failures", 1, clear_s=0)
    bell.decide(1)
    pause_job(SYSTEM, "backup", "the host moves")
    assert at(5_000) == []
