"""The life of an alert: pending, firing, over; once a target, without flapping and without a storm."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoAssertNumQueries

from hbus_console.access.permissions import SYSTEM
from hbus_console.alerts import services
from hbus_console.alerts.evaluation import KEEP_ALERTS_MS, AlertEvaluator
from hbus_console.alerts.models import Alert, Evaluation, Notification, Reading
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from tests.hbus_console.alerts.conftest import Watch, rule, webhook
from tests.hbus_console.ui.conftest import subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def test_a_condition_must_last_before_it_fires(watch: Watch) -> None:
    rule(threshold=100, for_s=30)
    assert watch.go(99) == []
    assert watch.go(100) == ["pending"]
    assert watch.go(150, rounds=2) == ["pending"]
    assert watch.go(120) == ["firing"]
    alert = Alert.objects.get()
    assert (alert.namespace, alert.subject_name, alert.value, alert.peak) == ("booking.created", "billing", 120, 150)


def test_what_gets_better_while_pending_never_was(watch: Watch) -> None:
    rule(threshold=100, for_s=30)
    watch.go(100, rounds=2)
    assert watch.go(0) == []
    # It begins anew: the seconds of the first time do not count.
    assert watch.go(100, rounds=3) == ["pending"]


def test_one_alert_a_target_however_long_it_lasts(watch: Watch) -> None:
    rule(threshold=100)
    assert watch.go(500, rounds=5) == ["firing"]
    assert watch.go(0) == ["resolved"]
    assert watch.go(500) == ["resolved", "firing"]


def test_the_database_refuses_a_second_open_alert_of_a_target(watch: Watch) -> None:
    rule(threshold=100)
    watch.go(500)
    again = Alert.objects.get()
    again.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        again.save(force_insert=True)


def test_it_is_over_only_once_it_stayed_below_the_lower_edge(watch: Watch) -> None:
    rule(threshold=100, clear_below=50, clear_s=20)
    watch.go(100)
    assert watch.go(60, rounds=6) == ["firing"], "between the edges it stays as it is"
    assert watch.go(40, rounds=2) == ["firing"], "below for ten seconds so far"
    assert watch.go(60) == ["firing"], "and the time below begins anew"
    assert watch.go(40, rounds=2) == ["firing"]
    assert watch.go(40) == ["resolved"]


def test_after_a_gap_nothing_fires_until_the_evidence_has_settled(watch: Watch) -> None:
    """The keeper was away for an hour: the backlog that met it is gone before anybody would have to be woken."""
    rule(threshold=100, for_s=30)
    watch.go(100)
    watch.clock.advance(3600)
    assert watch.go(9_000) == ["pending"], "the hour nobody watched does not count as lasting"
    assert watch.go(9_000, rounds=5) == ["pending"]
    assert watch.go(0) == []
    watch.go(9_000, rounds=3)
    assert watch.go(9_000) == ["firing"]


def test_without_a_gap_a_rule_without_duration_fires_at_once(watch: Watch) -> None:
    rule(threshold=100)
    assert watch.go(100) == ["firing"]


def test_a_target_nobody_could_measure_stays_as_it_is(watch: Watch) -> None:
    rule(threshold=100)
    watch.go(100)
    watch.go(None, rounds=5)
    # The last sample is still young enough until here; later there is none.
    assert watch.go(None, rounds=5) == ["firing"]
    assert Alert.objects.get().measured_ms <= watch.clock.now_ms() - 40_000


def test_a_paused_subscription_is_not_judged(watch: Watch, reader: Subscription) -> None:
    rule(threshold=100)
    watch.go(100)
    Subscription.objects.filter(pk=reader.pk).update(paused=True)
    assert watch.go(100) == ["resolved"]
    assert Alert.objects.get().over_because == "It was paused."
    Subscription.objects.filter(pk=reader.pk).update(paused=False)
    Topic.objects.update(paused=True)
    assert watch.go(100) == ["resolved"]


def test_an_alert_of_what_is_gone_or_not_watched_any_more_is_over(watch: Watch, reader: Subscription) -> None:
    made = rule(threshold=100)
    watch.go(100)
    services.change_rule(SYSTEM, made.pk, {"enabled": False})
    assert watch.go(100) == ["resolved"]
    services.change_rule(SYSTEM, made.pk, {"enabled": True})
    assert watch.go(100) == ["resolved", "firing"]
    reader.delete()
    assert watch.go(100) == ["resolved", "resolved"]


def test_a_rule_watches_its_topics_its_subscriptions_and_its_team_only(watch: Watch) -> None:
    subscription(topic("payment.taken"), "billing", team="Finance")
    subscription(Topic.objects.get(name="booking.created"), "partner-sync", team="Finance")
    rule(threshold=1, name="by topic", topics="booking.*")
    rule(threshold=1, name="by pattern", group="part*-sync")
    rule(threshold=1, name="by team", owner="Finance")
    watch.clock.advance(10)
    for about, group in (
        ("booking.created", "billing"), ("booking.created", "partner-sync"), ("payment.taken", "billing"),
    ):  # fmt: skip
        watch.sample(5, topic=about, group=group)
    watch.evaluator.tick()
    found = {(it.rule_name, it.namespace, it.subject_name) for it in Alert.objects.all()}
    assert found == {
        ("by topic", "booking.created", "billing"),
        ("by topic", "booking.created", "partner-sync"),
        ("by pattern", "booking.created", "partner-sync"),
        ("by team", "booking.created", "partner-sync"),
        ("by team", "payment.taken", "billing"),
    }


def test_a_rule_whose_team_is_gone_watches_nothing(watch: Watch) -> None:
    from hbus_console.teams.models import Team

    Team.objects.create(name="Gone", contact="#x")
    rule(threshold=1, owner="Gone")
    Team.objects.filter(name="Gone").delete()
    assert watch.go(100) == []


@pytest.mark.parametrize("changes", [{"severity": "critical"}, {"severity": "critical", "owner": ""}])
def test_nor_after_a_change_of_something_else(watch: Watch, changes: dict[str, str]) -> None:
    from hbus_console.teams.models import Team

    Team.objects.create(name="Gone", contact="#x")
    made = rule(threshold=1, owner="Gone")
    Team.objects.filter(name="Gone").delete()
    assert services.change_rule(SYSTEM, made.pk, changes).severity == "critical"
    assert watch.go(100) == []
    Team.objects.create(name="Other", contact="#y")
    services.change_rule(SYSTEM, made.pk, {"owner": "Other"})
    services.change_rule(SYSTEM, made.pk, {"owner": ""})
    assert watch.go(100) != [], "somebody has decided that it watches everything"


def test_all_that_fires_in_a_round_is_one_message_to_each_channel(watch: Watch) -> None:
    webhook("one")
    webhook("two")
    made = rule(threshold=100, channels=("one", "two"))
    for number in range(30):
        subscription(Topic.objects.get(), f"reader-{number}")
    watch.clock.advance(10)
    for number in range(30):
        watch.sample(100, group=f"reader-{number}")
    watch.evaluator.tick()
    assert Alert.objects.filter(rule=made, state="firing").count() == 30
    rows = list(Notification.objects.order_by("channel__name"))
    assert [(row.channel.name, row.event, row.body["count"], len(row.body["alerts"])) for row in rows] == [
        ("one", "fired", 30, 20),
        ("two", "fired", 30, 20),
    ]
    assert rows[0].alerts.count() == 30


def test_each_turn_is_told_once(watch: Watch) -> None:
    webhook()
    rule(threshold=100, channels=("on-call",))
    watch.go(100, rounds=4)
    watch.go(0, rounds=4)
    assert list(Notification.objects.order_by("pk").values_list("event", flat=True)) == ["fired", "resolved"]


def test_who_was_told_hears_that_it_is_over_when_its_rule_is_deleted(watch: Watch) -> None:
    webhook()
    made = rule(threshold=100, channels=("on-call",))
    quiet = rule(threshold=100, name="silenced from the start", channels=("on-call",), for_s=20)
    watch.go(100)
    alert = Alert.objects.get(rule=quiet)
    services.silence(SYSTEM, alert.pk, until_ms=watch.clock.now_ms() + 600_000, reason="x", clock=watch.clock)
    assert watch.go(100, rounds=4) == ["firing", "firing"]
    for each in (made, quiet):
        services.delete_rule(SYSTEM, each.pk, "not needed", clock=watch.clock)
    fired, resolved = Notification.objects.order_by("pk")
    assert (fired.event, resolved.event) == ("fired", "resolved")
    assert (resolved.rule_name, resolved.made_ms) == (made.name, watch.clock.now_ms())
    assert [each["state"] for each in resolved.body["alerts"]] == ["resolved"]
    assert resolved.body["alerts"][0]["owner"] == "Distribution"


def test_a_silenced_alert_tells_nobody_until_the_silence_ends(watch: Watch) -> None:
    webhook()
    rule(threshold=100, channels=("on-call",))
    other = rule(threshold=90, name="another rule", channels=("on-call",))
    watch.go(0)
    watch.go(95)
    alert = Alert.objects.get(rule=other)
    watch.go(0)
    services.silence(SYSTEM, alert.pk, until_ms=watch.clock.now_ms() + 60_000, reason="release", clock=watch.clock)
    Notification.objects.all().delete()
    watch.go(95, rounds=5)
    assert not Notification.objects.exists(), "it began anew, and the silence holds"
    watch.go(95, rounds=2)
    assert [row.rule_name for row in Notification.objects.all()] == ["another rule"]


def test_a_silence_of_one_rule_leaves_the_others_alone(watch: Watch) -> None:
    webhook()
    quiet = rule(threshold=100, channels=("on-call",))
    watch.go(100)
    alert = Alert.objects.get(rule=quiet)
    services.silence(SYSTEM, alert.pk, until_ms=watch.clock.now_ms() + 600_000, reason="x", clock=watch.clock)
    Notification.objects.all().delete()
    rule(threshold=50, name="speaks", channels=("on-call",))
    watch.go(100)
    assert [row.rule_name for row in Notification.objects.all()] == ["speaks"]
    services.silence(
        SYSTEM, alert.pk, until_ms=watch.clock.now_ms() + 600_000, reason="x", every_rule=True, clock=watch.clock
    )
    rule(threshold=40, name="silent now", channels=("on-call",))
    watch.go(100)
    assert [row.rule_name for row in Notification.objects.all()] == ["speaks"]


def test_readings_are_kept_for_the_chart_and_grow_thinner(watch: Watch) -> None:
    rule(threshold=100)
    watch.go(100, rounds=10)
    assert Reading.objects.count() == 10
    alert = Alert.objects.get()
    Alert.objects.update(began_ms=watch.clock.now_ms() - 240 * 60_000)
    watch.go(100, rounds=60)
    assert 15 <= alert.readings.count() <= 25, "of an alert four hours old, about one a minute"


def test_a_change_of_the_rule_meanwhile_waits_for_the_next_round(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rule(threshold=100)
    real = AlertEvaluator._judge

    def judge_while_somebody_edits(self: AlertEvaluator, *arguments: object) -> object:
        found = real(self, *arguments)  # type: ignore[arg-type]
        services.delete_rule(SYSTEM, made.pk, "in the middle")
        return found

    monkeypatch.setattr(AlertEvaluator, "_judge", judge_while_somebody_edits)
    assert watch.go(100) == []


def test_what_a_person_ended_meanwhile_is_not_brought_back(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    made = rule(threshold=100)
    watch.go(100)
    real = AlertEvaluator._judge

    def judge_while_somebody_acts(self: AlertEvaluator, *arguments: object) -> object:
        found = real(self, *arguments)  # type: ignore[arg-type]
        services.acknowledge(SYSTEM, Alert.objects.get().pk, "mine")
        services.delete_rule(SYSTEM, made.pk, "in the middle", clock=watch.clock)
        return found

    monkeypatch.setattr(AlertEvaluator, "_judge", judge_while_somebody_acts)
    assert watch.go(300) == ["resolved"]
    alert = Alert.objects.get()
    assert (alert.acknowledged_by, alert.over_because) == ("system", "The rule was deleted by system.")


def test_the_evaluation_tells_how_it_stands(watch: Watch) -> None:
    rule()
    watch.go(0)
    state = Evaluation.objects.get()
    assert (state.at_ms, state.rules, state.targets) == (watch.clock.now_ms(), 1, 2)


def test_old_alerts_are_forgotten(watch: Watch) -> None:
    rule(threshold=100)
    watch.go(100)
    watch.go(0)
    Alert.objects.update(resolved_ms=watch.clock.now_ms() - KEEP_ALERTS_MS - 1)
    watch.clock.advance(600)
    watch.go(0)
    assert not Alert.objects.exists()
    assert not Reading.objects.exists()


def test_many_alerts_that_begin_in_one_round_are_stored_together(
    watch: Watch, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    rule(threshold=100)
    watch.clock.advance(10)
    for number in range(60):
        subscription(topic(f"t{number}"), "g")
        watch.sample(500, topic=f"t{number}", group="g")
    with django_assert_max_num_queries(45):
        watch.evaluator.tick()
    assert watch.states() == ["firing"] * 60
    assert Reading.objects.values("alert").distinct().count() == 60
