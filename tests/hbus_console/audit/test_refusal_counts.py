from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from engine.core.subject import Subject
from hbus_console.access.permissions import ANONYMOUS, Actor
from hbus_console.audit.models import AuditEntry, RefusalCount
from hbus_console.audit.refusal_counts import MOST_A_DAY, RefusalSums, record_or_count
from hbus_console.audit.subjects import INSTALLATION

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("audit_state")]
VERA = Actor("vera")
HOUR_S, DAY_S = 3_600, 86_400
DELETE, EDIT = "topic.delete.refused", "job.edit.refused"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def refuse(clock: ManualClock, times: int, action: str = DELETE, actor: Actor = VERA) -> int:
    """How many of so many have an entry."""
    made = [
        record_or_count(actor, action, Subject("topic", f"a.b{number}"), {"why": "no"}, clock=clock)
        for number in range(times)
    ]
    return sum(entry is not None for entry in made)


def told() -> list[tuple[str, str, str, int, str]]:
    """The entries of counts."""
    return [
        (entry.actor, entry.action, str(entry.subject), entry.after["times"], entry.after["last"])
        for entry in AuditEntry.objects.order_by("seq")
        if "times" in entry.after
    ]


def test_the_first_of_a_day_have_an_entry_each_and_of_the_others_the_sum_is_told(clock: ManualClock) -> None:
    assert refuse(clock, MOST_A_DAY + 300) == MOST_A_DAY
    assert refuse(clock, 7, EDIT) == 0
    last = AuditEntry.objects.latest("seq")
    assert last.after == {"why": "no", "from_now_on": "counted, and told every hour"}
    clock.advance(HOUR_S - 1)
    RefusalSums(clock).tick()
    assert told() == []
    clock.advance(1)
    RefusalSums(clock).tick()
    assert told() == [
        ("vera", EDIT, str(INSTALLATION), 7, "topic:a.b6"),
        ("vera", DELETE, str(INSTALLATION), 300, "topic:a.b399"),
    ]
    assert set(AuditEntry.objects.latest("seq").after) == {"times", "last", "since", "until", "why"}
    clock.advance(HOUR_S)
    RefusalSums(clock).tick()
    assert len(told()) == 2


def test_none_is_lost_between_two_sums(clock: ManualClock) -> None:
    refuse(clock, MOST_A_DAY)
    for _ in range(30):
        refuse(clock, 10)
        clock.advance(HOUR_S / 2)
        RefusalSums(clock).tick()
    clock.advance(HOUR_S)
    RefusalSums(clock).tick()
    counted = sum(times for *_, times, _ in told())
    assert counted + AuditEntry.objects.count() - len(told()) == MOST_A_DAY + 300


def test_the_next_day_begins_anew_and_keeps_what_was_not_told(clock: ManualClock) -> None:
    refuse(clock, MOST_A_DAY + 5)
    clock.advance(DAY_S)
    assert refuse(clock, MOST_A_DAY + 5) == MOST_A_DAY
    RefusalSums(clock).tick()
    assert [times for *_, times, _ in told()] == [10]


def test_the_tokens_of_a_person_are_that_person_and_nobody_else(clock: ManualClock) -> None:
    tokens = [Actor(f"vera/{number}", "token") for number in range(4)]
    made = [refuse(clock, MOST_A_DAY // 4, actor=token) for token in tokens]
    assert made == [MOST_A_DAY // 4] * 4
    assert refuse(clock, 1) == 0
    assert refuse(clock, 1, actor=Actor("veronika")) == 1
    assert refuse(clock, 1, actor=Actor("vera", "shell")) == 1


def test_of_whom_nobody_knows_each_subject_is_counted(clock: ManualClock) -> None:
    def fail(name: str) -> AuditEntry | None:
        subject = Subject("user", "", name)
        return record_or_count(ANONYMOUS, "session.login.refused", subject, {}, by_subject=True, clock=clock)

    for _ in range(MOST_A_DAY + 3):
        fail("anna")
    assert fail("anna") is None
    assert fail("bob") is not None
    clock.advance(HOUR_S)
    RefusalSums(clock).tick()
    assert told() == [("anonymous", "session.login.refused", "user:/anna", 4, "user:/anna")]


def test_what_nobody_asks_for_again_is_forgotten_once_it_is_told(clock: ManualClock) -> None:
    refuse(clock, MOST_A_DAY + 1)
    refuse(clock, 1, actor=Actor("anna"))
    clock.advance(DAY_S - HOUR_S)
    RefusalSums(clock).tick()
    assert RefusalCount.objects.count() == 2
    clock.advance(HOUR_S)
    RefusalSums(clock).tick()
    assert not RefusalCount.objects.exists()
