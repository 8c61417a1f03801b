from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from engine.core.fact_kinds import FactCounter, FactKind, Tone
from engine.core.subject import Subject
from hbus_console.access.permissions import Actor
from hbus_console.alerts.concerns import firing
from hbus_console.alerts.models import Alert
from hbus_console.audit import concerns as attention
from hbus_console.audit.services import record
from hbus_console.audit.state import ChainState, Verified
from hbus_console.cluster.concerns import nodes as read_nodes
from hbus_console.cluster.concerns import store as read_store
from hbus_console.cluster.probes import StoreState
from hbus_console.consumers.host import HELD_MOST
from hbus_console.evidence import concerns as evidence
from hbus_console.evidence.kinds import kinds as fact_kinds
from hbus_console.evidence.models import Evidence, Notice
from hbus_console.nodes.stamps import Node
from hbus_console.outbox.models import OutboxMessage
from hbus_console.overview.concerns import concerns
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.traffic.concerns import lag as read_lag
from hbus_console.traffic.flow import LagNow
from hbus_console.ui.concern import Concern, Look
from tests.hbus_console.kept import kept
from tests.hbus_console.ui.conftest import dead_letters, subscription, topic

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

WELL = StoreState("127.0.0.1:6379", server="Valkey", version="9.1", policy="noeviction", durable=True)


def node(role: str, *, silent: bool = False, **detail: object) -> Node:
    return Node(f"h:{role}:0", role, "0", "h", 1, 0, 0, silent, detail)


HUNG = {"running_s": 400.0, "given_up": False}
ALL = [node("web"), node("consumer"), node("keeper")]


def look(
    actor: Actor,
    now_ms: int,
    *,
    store: StoreState = WELL,
    nodes: Sequence[Node] = ALL,
    lag: Sequence[LagNow] = (),
    alerts: Sequence[Alert] = (),
) -> Look:
    """With everything that changes from outside as it is given here."""
    return Look(actor, now_ms, {read_store: store, read_nodes: nodes, read_lag: lag, firing: alerts})


def found(actor: Actor, **given: Any) -> list[Concern]:
    return concerns(look(actor, time.time_ns() // 1_000_000, **given))


def texts(actor: Actor, **given: Any) -> list[str]:
    return [concern.text for concern in found(actor, **given)]


def test_nothing_waits_when_all_is_well(admin_actor: Actor) -> None:
    topic("booking.created")
    assert found(admin_actor) == []


def test_one_cause_on_two_topics_is_two_groups_whose_links_open_each_its_own(admin_actor: Actor) -> None:
    dead_letters(2, "stay.completed")
    dead_letters(3, "booking.changed")
    hrefs = [concern.href for concern in found(admin_actor)]
    assert [href.partition("?open=")[2] for href in hrefs] == [
        "7c1f9a%2Fbooking.changed%2Fpartner-sync",
        "7c1f9a%2Fstay.completed%2Fpartner-sync",
    ]


def test_further_causes_are_one_line_not_silently_left_out(admin_actor: Actor) -> None:
    for number in range(6):
        dead_letters(1, "booking.changed", fingerprint=f"f{number}")
    assert texts(admin_actor)[-1] == "Dead letters of further causes"
    assert found(admin_actor)[-1].note == "fewer of each, or as many"
    assert len(found(admin_actor)) == 5


def test_a_subscription_at_its_limit_of_dead_letters_calls_for_somebody(admin_actor: Actor, settings: Settings) -> None:
    dead_letters(3, "booking.changed")
    dead_letters(2, "stay.completed", "loyalty", "e19d07")
    settings.DEAD_LETTER_LIMIT = 3
    first = found(admin_actor)[0]
    assert (first.tone, first.link) == ("bad", "Review 3")
    assert first.text == "partner-sync on booking.changed has reached its limit of dead letters"
    assert first.note.startswith("3 wait, the limit is 3 · none is removed")
    assert first.href == "/dead-letters/?topic=booking.changed&subscription=partner-sync"
    for limit in (4, 0):
        settings.DEAD_LETTER_LIMIT = limit
        assert not any("limit" in text for text in texts(admin_actor))


def test_parked_keys_call_for_a_decision(admin_actor: Actor, viewer_actor: Actor) -> None:
    subscription(topic("stay.completed"), "loyalty")
    now = time.time_ns() // 1_000_000
    lag = [LagNow("stay.completed", "loyalty", now, 0, 0, 0, now, parked=4)]
    (concern,) = found(admin_actor, lag=lag)
    assert (concern.tone, concern.text) == ("warn", "loyalty on stay.completed has parked keys")
    assert (concern.note, concern.href) == (
        "4 messages wait with them",
        "/subscriptions/stay.completed/loyalty/order/",
    )
    assert found(viewer_actor, lag=lag) == []


def test_an_alert_about_the_limit_is_said_once(admin_actor: Actor, settings: Settings) -> None:
    dead_letters(4, "booking.changed")
    settings.DEAD_LETTER_LIMIT = 4

    def lines(value: float) -> list[str]:
        now = time.time_ns() // 1_000_000
        alert = Alert(
            pk=1, rule_name="Limit", kind="dead_letter_limit", severity="critical",
            subject_kind="subscription", namespace="booking.changed", subject_name="partner-sync",
            state="firing", threshold=80, value=value, fired_ms=now,
        )  # fmt: skip
        return [text for text in texts(admin_actor, alerts=[alert]) if "imit" in text]

    assert lines(100) == ["partner-sync on booking.changed has reached its limit of dead letters"]
    settings.DEAD_LETTER_LIMIT = 5
    assert lines(80) == ["Limit: partner-sync on booking.changed"]


def fired(kind: str, about: str = "rate.published", group: str = "loyalty", **fields: Any) -> Alert:
    values = {"rule_name": "Rule", "severity": "warning", "threshold": 1, "value": 5, **fields}
    return Alert(
        pk=1, kind=kind, subject_kind="subscription" if group else "topic", namespace=about, subject_name=group,
        state="firing", peak=5, fired_ms=time.time_ns() // 1_000_000, **values,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["lag", "oldest"])
def test_an_alert_that_says_a_subscription_falls_behind_says_it_alone(admin_actor: Actor, kind: str) -> None:
    about, now = topic("rate.published"), time.time_ns() // 1_000_000
    late = []
    for group in ("loyalty", "billing"):
        subscription(about, group)
        late.append(LagNow("rate.published", group, now, 12, 0, 0, now - 400_000))
    assert texts(admin_actor, lag=late, alerts=[fired(kind)]) == [
        "Rule: loyalty on rate.published",
        "billing on rate.published falls behind",
    ]
    assert "loyalty on rate.published falls behind" in texts(admin_actor, lag=late, alerts=[fired("breaker_open")])


def test_what_leads_further_than_its_alert_says_since_when_it_fires(admin_actor: Actor, settings: Settings) -> None:
    subscription(topic("rate.published"), "loyalty")
    dead_letters(2, "rate.published", "loyalty")
    settings.DEAD_LETTER_LIMIT = 2
    now = time.time_ns() // 1_000_000
    lag = [LagNow("rate.published", "loyalty", now, 0, 0, 0, now, parked=4)]
    alerts = [fired("parked"), fired("dead_letters"), fired("dead_letter_limit", value=100)]
    full, dead, parked = found(admin_actor, lag=lag, alerts=alerts)
    assert " · alert since " in full.note
    assert "since" in dead.note
    assert " · alert since " in parked.note
    other = [fired("parked", group="billing")]
    assert " · alert since " not in found(admin_actor, lag=lag, alerts=other)[-1].note


def test_what_several_duties_have_met_is_one_line(admin_actor: Actor) -> None:
    away = "The store cannot be reached. It is tried again."
    names = ("audit-verification", "consumer-names", "relay")
    duties = [{"name": name, "state": "store lost", "last_error": away} for name in names]
    duties.append({"name": "rollup", "state": "running", "last_error": "it hurts"})
    told = [each for each in found(admin_actor, nodes=[*ALL[:2], node("keeper", duties=duties)]) if "dut" in each.text]
    assert [(each.tone, each.text, each.note) for each in told] == [
        ("warn", "3 duties fail alike", f"{away} audit-verification, consumer-names and relay"),
        ("warn", "The duty rollup fails", "it hurts"),
    ]


def test_a_duty_that_hangs_is_told_until_another_keeper_does_it(admin_actor: Actor) -> None:
    stuck = node("keeper", duties=[{"name": "relay", "state": "hung"}, {"name": "mover", "state": "running"}])
    (told,) = [each for each in found(admin_actor, nodes=[stuck]) if each.text == "The duty relay hangs"]
    assert (told.tone, stuck.name in told.note) == ("bad", True)
    successor = node("keeper", duties=[{"name": "relay", "state": "running"}])
    assert "The duty relay hangs" not in texts(admin_actor, nodes=[stuck, successor])


def test_the_worst_comes_first_and_among_equals_each_has_its_place(admin_actor: Actor, settings: Settings) -> None:
    now = time.time_ns() // 1_000_000
    kept(now)
    subscription(topic("a.paused", paused=True), "paused", paused=True)
    subscription(topic("b.ownerless", team=None), "ownerless", team=None)
    slow = topic("c.slow")
    subscription(slow, "slow")
    # Of the same subscription it would follow from what is wrong there, and be no line of its own.
    subscription(slow, "late")
    lag = [
        LagNow("c.slow", "slow", now, 5, 0, 0, None, parked=3),
        LagNow("c.slow", "late", now, 5, 0, 0, now - 400_000),
    ]
    Notice.objects.create(kind="group_lost", at_ms=now - 900, topic="c.slow", subscription="slow")
    dead_letters(2, "c.slow", "slow")
    settings.DEAD_LETTER_LIMIT = 2
    OutboxMessage.objects.create(
        topic="c.slow", message_id="m", body=b"{}", refused_at=datetime.now(UTC), last_error="No."
    )
    alerts = [fired("silent_topic", group="", severity="critical"), fired("publish_failures", rule_name="Other")]
    failing = node("keeper", duties=[{"name": "collector", "state": "running", "last_error": "Timeout: store"}])
    hung = node("consumer", consumers=[{"topic": "c.slow", "group": "slow", "hung": [HUNG]}])
    assert texts(admin_actor, nodes=[hung, failing], lag=lag, alerts=alerts) == [
        "Rule: rate.published",
        "slow on c.slow has reached its limit of dead letters",
        "2 dead letters on c.slow, one cause",
        "The bus refused a message of the outbox for c.slow",
        "A handler of slow on c.slow does not return",
        "b.ownerless has no owner",
        "The duty collector fails",
        "Other: loyalty on rate.published",
        "ownerless on b.ownerless has no owner",
        "slow on c.slow had lost its place in the store",
        "slow on c.slow has parked keys",
        "late on c.slow falls behind",
        "a.paused is paused",
        "paused on a.paused is paused",
    ]


def test_what_several_features_want_to_know_is_read_once(admin_actor: Actor) -> None:
    asked: list[int] = []

    def answer(look: Look) -> int:
        asked.append(look.now_ms)
        return 7

    look = Look(admin_actor, 5)
    assert [look.once(answer), look.once(answer)] == [7, 7]
    assert asked == [5]


def test_an_ownerless_topic_asks_for_an_owner(admin_actor: Actor) -> None:
    topic("reminder.due", team=None)
    (concern,) = found(admin_actor)
    assert (concern.text, concern.link, concern.tone) == ("reminder.due has no owner", "Name an owner", "bad")


def test_an_ownerless_subscription_asks_for_an_owner_and_many_are_not_a_wall(admin_actor: Actor) -> None:
    about = topic("booking.created")
    subscription(about, "billing", team=None)
    (concern,) = found(admin_actor)
    assert (concern.text, concern.tone) == ("billing on booking.created has no owner", "warn")
    assert concern.href == "/subscriptions/booking.created/billing/settings/"
    for number in range(5):
        subscription(about, f"reader-{number}", team=None)
    assert [it.text for it in found(admin_actor)][-1] == "Further subscriptions have no owner"
    assert len(found(admin_actor)) == 5


def test_what_the_bus_refused_of_the_outbox_asks_for_somebody(admin_actor: Actor, viewer_actor: Actor) -> None:
    for number in range(3):
        OutboxMessage.objects.create(
            topic="payment.taken",
            message_id=f"m-{number}",
            body=b"{}",
            refused_at=datetime.now(UTC) if number else None,
            last_error="Topic 'payment.taken' has no owner.",
        )
    (concern,) = found(admin_actor)
    assert concern.text == "The bus refused 2 messages of the outbox for payment.taken"
    assert concern.note.startswith("Topic 'payment.taken' has no owner. · since ")
    assert concern.tone == "bad"
    assert found(viewer_actor) == []


def test_a_paused_subscription_says_who_and_why(admin_actor: Actor) -> None:
    subscription(topic("rate.published"), "partner-sync", paused=True, pause_reason="maintenance")
    assert found(admin_actor)[0].note == "“maintenance”"
    with transaction.atomic():
        record(
            admin_actor,
            "subscription.pause",
            Subject("subscription", "rate.published", "partner-sync"),
            reason="maintenance",
        )
    (concern,) = found(admin_actor)
    assert concern.text == "partner-sync on rate.published is paused"
    assert concern.note.startswith("by root at ")
    assert concern.note.endswith(": “maintenance”")


def test_a_subscription_that_falls_behind_is_named_unless_it_is_paused(admin_actor: Actor) -> None:
    subscription(topic("rate.published"), "loyalty")
    now = time.time_ns() // 1_000_000
    late = LagNow("rate.published", "loyalty", now, 12, 0, 0, now - 400_000)
    assert texts(admin_actor, lag=[late]) == ["loyalty on rate.published falls behind"]
    fresh = LagNow("rate.published", "loyalty", now, 12, 0, 0, now - 1_000)
    assert texts(admin_actor, lag=[fresh]) == []
    Subscription.objects.update(paused=True)
    assert texts(admin_actor, lag=[late]) == ["loyalty on rate.published is paused"]
    Subscription.objects.update(paused=False)
    Topic.objects.update(paused=True)
    assert texts(admin_actor, lag=[late]) == ["rate.published is paused"]


def test_roles_that_died_or_fell_silent_and_failing_duties(admin_actor: Actor) -> None:
    failing = node("keeper", duties=[{"name": "collector", "state": "running", "last_error": "Timeout: store"}])
    assert texts(admin_actor, nodes=[node("consumer", silent=True), failing]) == [
        "No consumer is alive",
        "The duty collector fails",
    ]
    assert texts(admin_actor, nodes=[node("consumer", silent=True), node("consumer"), node("keeper")]) == [
        "A consumer has fallen silent"
    ]


def test_a_process_that_hosts_too_many_subscriptions_is_named_without_their_number(
    admin_actor: Actor, viewer_actor: Actor
) -> None:
    def hosting(number: int, *, silent: bool = False) -> Node:
        return node(
            "consumer", silent=silent, consumers=[{"topic": f"t{each}", "group": "g"} for each in range(number)]
        )

    crowded = "h:consumer:0 hosts more subscriptions than one process holds well"
    for actor in (admin_actor, viewer_actor):
        assert crowded in texts(actor, nodes=[hosting(HELD_MOST + 1)])
        assert crowded not in texts(actor, nodes=[hosting(HELD_MOST)])
        assert crowded not in texts(actor, nodes=[hosting(HELD_MOST + 1, silent=True)])


def test_a_store_in_trouble_comes_first_and_roles_are_not_guessed(admin_actor: Actor) -> None:
    topic("reminder.due", team=None)
    away = StoreState("127.0.0.1:6379", error="Connection refused")
    assert texts(admin_actor, store=away, nodes=[]) == [
        "The store does not answer: Connection refused",
        "reminder.due has no owner",
    ]


def test_notices_of_the_engine_are_told_in_words_and_added_up(admin_actor: Actor) -> None:
    now = time.time_ns() // 1_000_000
    Notice.objects.create(kind="facts_dropped", at_ms=now - 2_000, count=1_000)
    Notice.objects.create(kind="facts_dropped", at_ms=now - 1_000, count=204)
    Notice.objects.create(kind="group_lost", at_ms=now - 900, topic="booking.created", subscription="availability")
    Notice.objects.create(kind="trimmed", at_ms=now - 900, topic="booking.created", count=5)
    Notice.objects.create(kind="retention_held", at_ms=now - 86_400_000, topic="booking.created")
    assert texts(admin_actor) == [
        "1,204 facts of evidence were dropped",
        "availability on booking.created had lost its place in the store",
    ]


def test_a_flood_of_notices_is_counted_whole_and_hides_none(admin_actor: Actor) -> None:
    now = time.time_ns() // 1_000_000
    Notice.objects.bulk_create(Notice(kind="facts_dropped", at_ms=now - 5_000, count=2) for _ in range(600))
    Notice.objects.create(kind="group_lost", at_ms=now - 900, topic="booking.created", subscription="availability")
    assert texts(admin_actor) == [
        "1,200 facts of evidence were dropped",
        "availability on booking.created had lost its place in the store",
    ]


def test_what_lies_outside_ones_scopes_is_nobodys_business(viewer_actor: Actor) -> None:
    topic("stay.completed", team=None)
    subscription(topic("rate.published"), "partner-sync", paused=True)
    dead_letters(3, "stay.completed")
    Notice.objects.create(
        kind="group_lost", at_ms=time.time_ns() // 1_000_000, topic="stay.completed", subscription="x"
    )
    assert found(viewer_actor) == []


def test_a_broken_audit_chain_is_said_to_who_may_read_the_log(
    admin_actor: Actor, viewer_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ChainState(5, None, Verified(holds=False, seq=3, hash="", at_ms=1))
    monkeypatch.setattr(attention, "chain_state", lambda: broken)
    assert texts(admin_actor) == ["The audit log has been tampered with"]
    assert texts(viewer_actor) == []


def test_every_step_leads_somewhere(admin_actor: Actor) -> None:
    topic("reminder.due", team=None)
    subscription(topic("rate.published"), "partner-sync", paused=True)
    dead_letters(1, "booking.changed")
    assert all(concern.href.startswith("/") and concern.link for concern in found(admin_actor, nodes=[]))
    assert json.dumps([concern.text for concern in found(admin_actor)])


def test_a_fact_names_what_it_is_about_in_the_words_of_its_kind(
    admin_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "{name} missed its slot"
    missed = FactKind("job_missed", "a slot was missed", Tone.BAD, 30, FactCounter("Slots."), calls_for_a_person=says)
    monkeypatch.setattr(evidence, "kinds", lambda: {**fact_kinds(), missed.name: missed})
    now = time.time_ns() // 1_000_000
    for ago_ms, subject in enumerate(("", "job-run:hotel.close/02:00", "job-plan:hotel.close")):
        Evidence.objects.create(kind=missed.name, subject=subject, namespace="", at_ms=now - ago_ms)
    Notice.objects.create(kind="retention_held", at_ms=now, topic="stay.completed")
    assert sorted(texts(admin_actor)) == [
        "02:00 missed its slot",
        "Retention of stay.completed waits for a subscription",
        "the installation missed its slot",
        "the job plan hotel.close missed its slot",
    ]


def test_facts_of_an_engine_without_a_ledger_call_for_a_person_too(
    admin_actor: Actor, viewer_actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "{place} was abandoned {amount} times"
    kind = FactKind("job_abandoned", "a run was lost", Tone.BAD, 30, FactCounter("Runs."), calls_for_a_person=says)
    monkeypatch.setattr(evidence, "kinds", lambda: {**fact_kinds(), kind.name: kind})
    now = time.time_ns() // 1_000_000

    def booked(subject: str, ago_ms: int, **fields: int) -> None:
        Evidence.objects.create(
            kind=kind.name, subject=subject, namespace=Subject.parse(subject).namespace, at_ms=now - ago_ms,
            node="n-1", fields=fields,
        )  # fmt: skip

    booked("job:booking.nightly", 900)
    booked("job:booking.nightly", 800, amount=4)
    booked("topic:stay.completed", 700)
    booked("topic:stay.completed", 86_400_000)
    assert [(it.text, it.href) for it in found(admin_actor)] == [
        ("booking.nightly was abandoned 5 times", "/jobs/booking.nightly/"),
        ("stay.completed was abandoned 1 times", "/topics/stay.completed/"),
    ]
    assert texts(viewer_actor) == ["booking.nightly was abandoned 5 times"]
