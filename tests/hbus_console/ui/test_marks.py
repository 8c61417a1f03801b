"""What the features mark: the mark of a thing differs after what pages show of it changed, and only in its scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from engine.core.clock import ManualClock
from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts import services as rules
from hbus_console.alerts.models import Alert, Channel, Evaluation, Notification, Rule, Silence
from hbus_console.alerts.services import ChannelDraft, RuleDraft
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.models import Notice
from hbus_console.nodes.beat import NodeBeat
from hbus_console.nodes.stamps import STILL_AFTER_MS
from hbus_console.operations.models import Operation
from hbus_console.outbox.models import OutboxMessage
from hbus_console.subscriptions import services
from hbus_console.teams.models import Team
from hbus_console.teams.services import change_team
from hbus_console.ui import live
from hbus_console.ui.changes import Changes, merged
from hbus_console.wiring import store
from tests.hbus_console.kept import kept
from tests.hbus_console.overview.test_overview import flowing, waiting
from tests.hbus_console.ui.conftest import dead_letters, subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

OURS = ("booking.*",)
THEIRS = ("stay.*",)
BILLING = "subscription:booking.created/billing"

Changed = Callable[..., list[str]]


@pytest.fixture
def changed(now_ms: int) -> Changed:
    """What an act changed for who sees ``scopes``, looked at before and ``after_ms`` later."""
    subscription(topic("booking.created"), "billing")
    subscription(topic("stay.completed"), "loyalty")

    def find(act: Callable[[], Any], scopes: tuple[str, ...] = OURS, after_ms: int = 0) -> list[str]:
        told = Changes()

        def look(number: int, at_ms: int) -> None:
            kept(at_ms)
            told.note(number, scopes, merged(part.marks for part in live.cells(at_ms, scopes)))

        look(1, now_ms)
        act()
        look(2, now_ms + after_ms)
        return [name for name in told.since(1, scopes) if name not in ("alive", "nodes", "roles", "soon", "store")]

    return find


def test_nothing_changes_where_nothing_was_done(changed: Changed, now_ms: int) -> None:
    waiting(now_ms, "booking.created", "billing", 0)
    assert changed(lambda: None) == []


def test_an_act_marks_what_was_acted_upon(changed: Changed) -> None:
    def pause() -> None:
        services.pause_subscription(SYSTEM, "booking.created", "billing", "a release")

    assert changed(pause) == ["audit", BILLING]


def test_an_act_elsewhere_marks_nothing(changed: Changed) -> None:
    def pause() -> None:
        services.pause_subscription(SYSTEM, "booking.created", "billing", "a release")

    assert changed(pause, THEIRS) == []


def test_dead_letters_mark_their_subscription(changed: Changed) -> None:
    assert changed(lambda: dead_letters(2, "booking.created", "billing")) == ["letters", BILLING]
    decided = DeadLetter.objects.filter(subscription="billing")
    assert changed(lambda: decided.update(state="discarded")) == ["letters", BILLING]
    assert changed(lambda: dead_letters(2, "booking.created", "billing", "other"), THEIRS) == []


def test_one_letter_for_another_is_a_change(changed: Changed) -> None:
    dead_letters(1, "booking.created", "billing")

    def replace() -> None:
        DeadLetter.objects.update(state="discarded")
        dead_letters(1, "booking.created", "billing", "other")

    assert changed(replace) == ["letters", BILLING]


def test_what_flows_and_what_waits_marks_its_subjects(changed: Changed, now_ms: int) -> None:
    assert changed(lambda: flowing(now_ms, "booking.created", published=5)) == ["messages", "topic:booking.created"]
    settled = changed(lambda: flowing(now_ms, "booking.created", "billing", settled=5))
    assert settled == ["messages", BILLING, "topic:booking.created"]
    assert changed(lambda: waiting(now_ms, "booking.created", "billing", 7)) == [BILLING]
    assert changed(lambda: waiting(now_ms + 1, "booking.created", "billing", 8), THEIRS) == []


def test_what_waits_grows_older_with_the_clock_alone(changed: Changed, now_ms: int) -> None:
    waiting(now_ms, "booking.created", "billing", 7)
    assert changed(lambda: None, after_ms=10_000) == [BILLING]


def test_alerts_are_marked_by_what_they_say_and_when_they_were_looked_at(changed: Changed, now_ms: int) -> None:
    rule = Rule.objects.create(name="Backlog", kind="lag", severity="critical", threshold=1, scope="*")
    values = {"rule": rule, "rule_name": "Backlog", "kind": "lag", "severity": "critical", "threshold": 1, "peak": 9}
    about = {"subject_kind": "subscription", "namespace": "booking.created", "subject_name": "billing"}

    def fire() -> None:
        Alert.objects.create(state="firing", value=9, began_ms=now_ms, measured_ms=now_ms, **values, **about)

    assert changed(fire) == ["alerts"]
    assert changed(lambda: Alert.objects.update(value=8)) == ["alerts"]
    assert changed(lambda: Alert.objects.update(value=7), THEIRS) == []
    assert changed(lambda: Evaluation.objects.create(pk=1, at_ms=now_ms)) == ["alerts"]
    silenced = {"until_ms": now_ms + 9_000, "reason": "known", "by": "ada", "began_ms": now_ms}
    assert changed(lambda: Silence.objects.create(**about, **silenced)) == ["alerts"]
    assert changed(lambda: None, after_ms=10_000) == ["alerts"]


def test_alerts_are_marked_by_their_rules_whom_these_tell_and_what_was_sent(changed: Changed, now_ms: int) -> None:
    draft = RuleDraft(name="Backlog", kind="lag", threshold=203, topics="booking.*")
    assert "alerts" in changed(lambda: rules.create_rule(SYSTEM, draft))
    rule = Rule.objects.get()
    assert "alerts" in changed(lambda: rules.change_rule(SYSTEM, rule.pk, {"threshold": 204}))
    assert changed(lambda: rules.change_rule(SYSTEM, rule.pk, {"threshold": 205}), THEIRS) == []
    channel = ChannelDraft(name="desk", kind="webhook", url="https://1.1.1.1/")
    assert "alerts" in changed(lambda: rules.create_channel(SYSTEM, channel))
    made = Channel.objects.get()
    assert "alerts" in changed(lambda: rules.change_channel(SYSTEM, made.pk, {"name": "night desk"}))
    alert = Alert.objects.create(
        rule=rule, severity="warning", kind="lag", threshold=1, peak=9, value=9, state="firing",
        began_ms=now_ms, measured_ms=now_ms,
        subject_kind="subscription", namespace="booking.created", subject_name="billing",
    )  # fmt: skip
    sent = Notification.objects.create(channel=made, event="fired", body={}, made_ms=now_ms, next_ms=now_ms)
    assert changed(lambda: sent.alerts.add(alert)) == ["alerts"]
    assert changed(lambda: Notification.objects.update(state="sent")) == ["alerts"]
    assert changed(lambda: Notification.objects.update(state="failed"), THEIRS) == []
    assert changed(lambda: Alert.objects.update(better_ms=now_ms)) == ["alerts"]
    assert "alerts" in changed(lambda: rules.delete_rule(SYSTEM, rule.pk, "no more"))


def test_teams_notices_and_what_the_bus_refused_are_marked(changed: Changed, now_ms: int) -> None:
    team = Team.objects.first()
    assert team
    assert changed(lambda: change_team(SYSTEM, team.name, {"contact": "#night"}), THEIRS) == ["teams"]
    dropped = Notice(kind="facts_dropped", at_ms=now_ms, topic="booking.created")
    assert changed(dropped.save) == ["notices"]
    refused = OutboxMessage(topic="booking.created", refused_at=timezone.now(), body=b"")
    assert changed(refused.save) == ["outbox"]
    assert changed(lambda: OutboxMessage.objects.update(refused_at=None)) == ["outbox"]


def test_an_operation_is_marked_while_it_moves(changed: Changed) -> None:
    fields = {"kind": "redrive", "title": "Redrive", "spec": {}, "digest": "d", "actor": "ada", "actor_kind": "user"}

    def start() -> None:
        Operation.objects.create(namespace="booking.created", reason="why", audit_seq=1, **fields)

    names = changed(start)
    number = Operation.objects.get().pk
    assert names == [f"operation:booking.created/{number}", "operations"]
    assert changed(lambda: Operation.objects.update(done=5)) == names
    assert changed(lambda: Operation.objects.update(done=6), THEIRS) == []


def test_a_consumer_that_stands_still_is_told_by_the_clock_alone(
    changed: Changed, prefix: str, settings: Any, now_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HBUS_PREFIX = prefix
    clock = ManualClock(start_ms=now_ms)
    monkeypatch.setattr("hbus_console.cluster.services.SystemClock", lambda: clock)
    line = {"topic": "booking.created", "group": "billing", "state": "running", "handled": 3}
    beat = NodeBeat(
        store.client(), prefix, name="c1", role="consumer", clock=clock, detail=lambda: {"consumers": [line]}
    )
    beat.beat()
    assert changed(lambda: clock.advance(1)) == []
    assert changed(lambda: clock.advance(STILL_AFTER_MS / 1000)) == [BILLING]
    assert changed(beat.beat) == [BILLING]
    line["handled"] = 4
    assert changed(beat.beat) == [BILLING]
    line["handled"] = 5
    assert changed(beat.beat, THEIRS) == []


def test_a_look_costs_as_much_however_many_subjects_there_are(
    changed: Changed, django_assert_max_num_queries: DjangoAssertNumQueries, now_ms: int
) -> None:
    for number in range(40):
        subscription(topic(f"booking.t{number}"), "billing")
        dead_letters(1, f"booking.t{number}", "billing", f"f{number}")
        waiting(now_ms, f"booking.t{number}", "billing", 3)
    with django_assert_max_num_queries(33):
        live.cells(now_ms, OURS)
