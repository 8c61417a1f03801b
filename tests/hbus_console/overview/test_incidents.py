"""One incident is one line under *Needs a person*, however many features and alerts tell of it."""

from __future__ import annotations

import time
from typing import Any

import pytest

from engine.bus.breaker_board import Pauses
from engine.bus.dead import cause_of, fingerprint
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.alerts.models import Alert
from hbus_console.deadletters.models import DeadLetter
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic.flow import LagNow
from hbus_console.ui.concern import MOST_INCIDENTS, Concern, Incident, at, listed, spell
from hbus_console.wiring import bus
from tests.hbus_console.kept import kept
from tests.hbus_console.overview.test_concerns import found, texts
from tests.hbus_console.topics.conftest import own_keys
from tests.hbus_console.ui.conftest import dead_letters, subscription, topic

__all__ = ["own_keys"]

pytestmark = [pytest.mark.django_db(databases=["default", "ledger"]), pytest.mark.usefixtures("own_keys")]

ONE = ("booking.changed", "partner-sync")
AWAY = "the partner's catalogue does not answer"
HERE = Subject("subscription", *ONE)


def concern(text: str, tone: str = "warn", **more: Any) -> Concern:
    return Concern(tone, text, f"note of {text}", f"/{text}/", "Open", **more)


def said(*concerns: Concern) -> list[str]:
    return [each.text for each in listed(concerns)]


def fired(kind: str, number: int, name: str, **more: Any) -> Alert:
    values = {"severity": "warning", "threshold": 1, "value": 400, "peak": 400, **more}
    return Alert(
        pk=number, rule_name=name, kind=kind, subject_kind="subscription", namespace=ONE[0], subject_name=ONE[1],
        state="firing", fired_ms=time.time_ns() // 1_000_000, **values,
    )  # fmt: skip


def late() -> list[LagNow]:
    now = time.time_ns() // 1_000_000
    return [LagNow(*ONE, now, 105, 0, 0, now - 400_000)]


@pytest.fixture
def incident(admin_actor: Actor, own_keys: None) -> None:
    """A dependency is away: messages die of it, the breaker opens, the rest waits."""
    kept(time.time_ns() // 1_000_000)
    subscription(topic(ONE[0]), ONE[1], breaker_failures=5)
    dead_letters(3, *ONE, fingerprint=fingerprint(ONE[1], "ConnectionError", AWAY))
    DeadLetter.objects.update(cause=cause_of("ConnectionError", AWAY), error=f"ConnectionError: {AWAY}")
    bus.breakers().trip(*ONE, "node-1", f"ConnectionError: {AWAY}", Pauses(60_000, 60_000))


@pytest.mark.usefixtures("incident")
def test_letters_breaker_alerts_and_what_waits_are_one_line(admin_actor: Actor) -> None:
    alerts = [
        fired("dead_letters", 1, "Dead letters wait for a decision"),
        fired("dead_letter_rate", 2, "Many messages die at once", severity="critical"),
        fired("breaker_open", 3, "A breaker is open"),
    ]
    (line,) = found(admin_actor, lag=late(), alerts=alerts)
    assert (line.text, line.link) == ("3 dead letters on booking.changed, one cause", "Review 3")
    for part in (f"ConnectionError: {AWAY}", "the breaker is open, nothing is delivered meanwhile",
                 "105 unsettled, the oldest for 6 m", "alert Many messages die at once (400 dead letters) since ",
                 "alert A breaker is open (6 m 40 s) since "):  # fmt: skip
        assert part in line.note, part


@pytest.mark.usefixtures("incident")
def test_another_cause_on_the_same_subscription_is_another_line(admin_actor: Actor) -> None:
    dead_letters(1, *ONE, fingerprint="another")
    Subscription.objects.update(team=None)
    assert [each.text for each in found(admin_actor, lag=late())] == [
        "3 dead letters on booking.changed, one cause",
        "A dead letter on booking.changed",
        "partner-sync on booking.changed has no owner",
    ]


@pytest.mark.usefixtures("incident")
@pytest.mark.parametrize("why", ["TimeoutError: it takes too long", "E: " + "x" * 2_000])
def test_a_breaker_that_opened_for_something_else_is_told_of(admin_actor: Actor, why: str) -> None:
    bus.breakers().force_close(*ONE, "olga: mended")
    bus.breakers().trip(*ONE, "node-1", why, Pauses(60_000, 60_000))
    told = [" ".join((each.text, each.note)) for each in found(admin_actor)]
    assert [("breaker" in each.lower()) for each in told].count(True) == 1
    assert len(told) == (2 if "Timeout" in why else 1)


@pytest.mark.usefixtures("incident")
def test_a_breaker_that_a_person_opened_joins_what_is_wrong(admin_actor: Actor) -> None:
    bus.breakers().force_open(*ONE, "olga: the partner asked for silence")
    (line,) = found(admin_actor)
    assert "the breaker is open" in line.note


def test_a_breaker_that_tries_a_message_is_not_said_to_deliver_nothing(admin_actor: Actor) -> None:
    subscription(topic(ONE[0]), ONE[1], breaker_failures=5)
    board = bus.breakers()
    board.trip(*ONE, "node-1", f"ConnectionError: {AWAY}", Pauses(60_000, 60_000))
    assert [each.note for each in found(admin_actor)] == ["nothing is delivered meanwhile"]
    board.force_trial(*ONE)
    board.probe(*ONE, "node-1")
    assert [each.note for each in found(admin_actor)] == ["one message is being tried"]


def test_a_breaker_leads_what_follows_from_it(admin_actor: Actor) -> None:
    subscription(topic(ONE[0]), ONE[1], breaker_failures=5)
    bus.breakers().trip(*ONE, "node-1", f"ConnectionError: {AWAY}", Pauses(60_000, 60_000))
    (line,) = found(admin_actor, lag=late(), alerts=[fired("breaker_open", 3, "A breaker is open")])
    assert (line.text, line.tone) == ("The breaker of partner-sync on booking.changed is open", "bad")
    assert "105 unsettled" in line.note
    assert "alert A breaker is open" in line.note


def test_alerts_of_a_rule_that_no_incident_takes_are_one_line(admin_actor: Actor) -> None:
    others = [fired("lag", number, "A backlog grows") for number in range(3)]
    for number, alert in enumerate(others):
        alert.namespace = f"t.{number}"
    assert [each.text for each in found(admin_actor, alerts=others)] == ["A backlog grows: 3 targets"]
    assert [each.text for each in found(admin_actor, alerts=others[:1])] == ["A backlog grows: partner-sync on t.0"]


def test_what_knows_the_cause_leads_and_the_line_is_as_urgent_as_its_worst_part() -> None:
    first, *rest = listed(
        [
            concern("echo", "bad", place=1, incident=Incident(HERE), echo=True, aside="it rings"),
            concern("follows", place=2, incident=Incident(HERE), aside="it waits"),
            concern("cause", place=9, incident=Incident(HERE, "f1")),
            concern("alone", place=3),
        ]
    )
    assert (first.text, first.tone, first.place) == ("cause", "bad", 1)
    assert first.note == "note of cause · it rings · it waits"
    assert [each.text for each in rest] == ["alone"]


def test_an_echo_leads_only_when_nobody_else_tells() -> None:
    echo = concern("echo", place=1, incident=Incident(HERE), echo=True, aside="it rings")
    assert said(echo) == ["echo"]
    assert said(echo, concern("follows", place=2, incident=Incident(HERE))) == ["follows"]
    elsewhere = Incident(Subject("subscription", ONE[0], "billing"))
    assert said(echo, concern("follows", place=2, incident=elsewhere)) == ["echo", "follows"]


def test_what_joins_another_line_takes_no_place_among_its_kind() -> None:
    """The first few are spelled out after the others have found their lines."""
    causes = [concern(f"cause {n}", "bad", incident=Incident(Subject("topic", f"t{n}"), "f")) for n in range(4)]
    kind = at(5, spell(range(9), lambda n: concern(f"kind {n}", incident=Incident(Subject("topic", f"t{n}"))),
                       concern("further of that kind")))  # fmt: skip
    assert said(*causes, *kind) == [
        *(f"cause {n}" for n in range(4)),
        *(f"kind {n}" for n in range(4, 8)),
        "further of that kind",
    ]


def test_a_line_in_which_others_are_told_is_one_of_those_that_are_left() -> None:
    """Nine of a kind, the last of which tells of an open breaker too: it is not cut off with the rest."""
    finished: list[str] = []

    def finish(lines: list[Concern]) -> list[Concern]:
        finished.extend(each.text for each in lines)
        return lines

    here = [Incident(Subject("topic", f"t{n}"), "f") for n in range(9)]
    kind = spell(range(9), lambda n: concern(f"kind {n}", incident=here[n]), concern("further"), finish)
    breaker = concern("breaker", incident=Incident(here[8].subject), aside="its breaker is open")

    lines = listed([*kind, breaker])

    assert [each.text for each in lines] == ["kind 0", "kind 1", "kind 2", "kind 8", "further"]
    assert "its breaker is open" in lines[3].note
    # What costs something is read for those and no others.
    assert finished == ["kind 0", "kind 1", "kind 2", "kind 8"]


def test_of_very_many_in_which_others_are_told_the_rest_is_counted() -> None:
    here = [Incident(Subject("topic", f"t{n}"), "f") for n in range(20)]
    kind = spell(range(20), lambda n: concern(f"kind {n}", incident=here[n]), concern("further"))
    breakers = [concern("breaker", incident=Incident(each.subject), aside="open") for each in here]
    lines = listed([*kind, *breakers])
    assert len(lines) == MOST_INCIDENTS + 1
    assert "with 8 of them more is wrong" in lines[-1].note


def test_dead_letters_are_grouped_by_cause_the_biggest_first(admin_actor: Actor) -> None:
    subscription(topic("booking.changed"), "partner-sync", team="Distribution")
    dead_letters(1, "stay.completed", "loyalty", "e19d07")
    dead_letters(37, "booking.changed")
    assert texts(admin_actor)[0] == "≥ 37 dead letters on booking.changed, one cause"
    kept(time.time_ns() // 1_000_000)
    first, second = found(admin_actor)
    assert first.text == "37 dead letters on booking.changed, one cause"
    assert first.note.startswith("UnknownRoomCode: DBL-SEA · partner-sync · since ")
    assert first.note.endswith("Distribution")
    assert first.link == "Review 37"
    assert "?open=7c1f9a" in first.href
    assert second.text == "A dead letter on stay.completed"
