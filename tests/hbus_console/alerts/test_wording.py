"""What an alert says of its value does not contradict its state, wherever it is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from hbus_console.access.permissions import SYSTEM, Actor
from hbus_console.alerts import concerns, services, standing
from hbus_console.alerts.models import Alert, Notification, Silence
from hbus_console.alerts.wording import measured, sentence, standing_of
from hbus_console.ui.concern import Look, listed
from tests.hbus_console.alerts.conftest import Watch, rule, webhook
from tests.hbus_console.alerts.test_measures import die

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def lingering(watch: Watch) -> Alert:
    """It fires although the three that died are out of its window by now."""
    rule("dead_letter_rate", 3, window_s=60, clear_s=300)
    die(watch.clock, 3)
    watch.go(0)
    assert sentence(Alert.objects.get()).endswith(
        " produced 3 dead letters in the last 1 m (threshold 3 dead letters)."
    )
    assert watch.go(0, rounds=10) == ["firing"]
    return Alert.objects.get()


SAID = "0 dead letters in the last 1 m, fires until clear for 5 m"


def test_a_value_that_would_not_fire_says_until_when_it_does(lingering: Alert) -> None:
    assert standing_of(lingering) == SAID
    assert sentence(lingering) == f"billing on booking.created: {SAID}; it peaked at 3 dead letters."


def test_the_overview_says_so_too(lingering: Alert, watch: Watch, admin_actor: Actor) -> None:
    (line,) = (it for it in concerns.concerns(Look(admin_actor, watch.clock.now_ms())) if it.echo)
    assert line.note.startswith(f"{SAID} · since")
    assert f"({SAID})" in line.aside


def test_the_pages_say_so_too(lingering: Alert, signed_in: Callable[..., Client]) -> None:
    client = signed_in()
    for path in ("/alerts/", f"/alerts/{lingering.pk}/"):
        page = client.get(path).content.decode()
        assert "0 dead letters in the last 1 m" in page
        assert "fires until clear for 5 m" in page
        assert "produced 0 dead letters" not in page


def test_a_message_that_is_told_late_says_so_too(watch: Watch) -> None:
    webhook()
    rule(threshold=100, clear_s=600, for_s=20, channels=("on-call",))
    watch.go(100)
    until_ms = watch.clock.now_ms() + 60_000
    services.silence(SYSTEM, Alert.objects.get().pk, until_ms=until_ms, reason="release", clock=watch.clock)
    watch.go(100, rounds=4)
    watch.go(7, rounds=3)
    told = Notification.objects.get().body["alerts"][0]["sentence"]
    assert told == "billing on booking.created: 7 messages, fires until clear for 10 m; it peaked at 100 messages."


def test_between_its_two_edges_it_says_which_one_ends_it(watch: Watch) -> None:
    rule(threshold=100, clear_below=50, clear_s=60)
    watch.go(100)
    watch.go(70)
    assert standing_of(Alert.objects.get()) == "70 messages, fires until below 50 messages"
    watch.go(20)
    assert standing_of(Alert.objects.get()) == "20 messages, fires until clear for 1 m"
    assert watch.go(20, rounds=6) == ["resolved"]
    assert sentence(Alert.objects.get()).endswith(": over; it peaked at 100 messages.")


def test_the_list_asks_for_no_rule_alone(watch: Watch, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(5):
        rule(threshold=10 + number)
    watch.go(50)
    with django_assert_max_num_queries(2):
        rows, _ = standing.listed(SYSTEM, standing.AlertFilters(), "", watch.clock.now_ms())
        assert [it.value for it in rows] == ["50 messages"] * 5
    with django_assert_max_num_queries(2):
        assert [measured(it) for it in standing.waiting(("*",), watch.clock.now_ms())] == ["50 messages"] * 5


def test_of_very_many_the_most_urgent_are_told_and_all_are_counted(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a stranger: a critical one that fired before a thousand others was on no first page."""
    monkeypatch.setattr(standing, "MOST_WAITING", 5)
    made = rule(threshold=10)

    def alert(number: int, severity: str, fired_ms: int) -> Alert:
        return Alert(
            rule=made, rule_name=made.name, kind=made.kind, severity=severity, state="firing", threshold=10, value=50,
            peak=50, began_ms=1, fired_ms=fired_ms, measured_ms=1, subject_kind="topic", namespace=f"t{number}",
        )  # fmt: skip

    Alert.objects.bulk_create([alert(0, "critical", 1), *(alert(n, "warning", 100 + n) for n in range(1, 12))])
    now_ms = watch.clock.now_ms()

    found = standing.waiting(("*",), now_ms)
    assert [(it.severity, it.namespace) for it in found[:2]] == [("critical", "t0"), ("warning", "t11")]
    assert len(found) == 5
    assert standing.count(("*",), now_ms) == 12
    assert f"{made.name}: at least 5 targets" in [each.text for each in listed(concerns.concerns(Look(SYSTEM, now_ms)))]

    Silence.objects.create(subject_kind="topic", namespace="t11", by="ann", began_ms=1, until_ms=now_ms + 60_000)
    assert standing.count(("*",), now_ms) == 11
    assert "t11" not in {it.namespace for it in standing.waiting(("*",), now_ms)}
