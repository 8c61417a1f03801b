"""Rules, channels, silences: checked, permitted, audited; and secrets that never leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from engine.core.errors import BadInput, Conflict, NotThere
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.alerts import services
from hbus_console.alerts.models import Alert, Channel, Evaluation, Rule, Silence
from hbus_console.alerts.services import ChannelDraft, RuleDraft
from hbus_console.alerts.services.defaults import default_rules
from hbus_console.audit.models import AuditEntry
from hbus_console.teams.models import Team
from tests.hbus_console.alerts.conftest import Watch, rule, webhook
from tests.hbus_console.topics.conftest import EDITOR, GOVERNOR, OPERATOR, VIEWER, actor, told
from tests.hbus_console.ui.conftest import subscription, topic

__all__ = ["told"]
pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Told = Callable[[], list[str]]


def draft(**fields: Any) -> RuleDraft:
    return RuleDraft(**{"name": "Slow", "kind": "oldest", "threshold": 60, **fields})


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"kind": "weather"}, "kind"),
        ({"threshold": 0}, "threshold"),
        ({"threshold": "many"}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"topics": "booking.**"}, "topics"),
        ({"group": "a b"}, "group"),
        ({"kind": "silent_topic", "group": "billing"}, "group"),
        ({"owner": "Nobody"}, "owner"),
        ({"for_s": -1}, "for_s"),
        ({"kind": "dead_letter_rate", "window_s": 5}, "window_s"),
        ({"clear_below": 61}, "clear_below"),
        ({"clear_s": 1.5}, "clear_s"),
        ({"severity": "panic"}, "severity"),
        ({"channels": ("nowhere",)}, "channels"),
    ],
)
def test_bad_input_names_the_field_and_leaves_nothing(fields: dict[str, Any], field: str, told: Told) -> None:
    with pytest.raises(BadInput) as refused:
        services.create_rule(SYSTEM, draft(**fields))
    assert refused.value.field == field
    assert refused.value.remedy
    assert not Rule.objects.exists()
    assert told() == []


def test_a_rule_is_made_changed_and_deleted_with_its_trace(told: Told) -> None:
    webhook()
    made = services.create_rule(EDITOR, draft(topics="booking.*", channels=("on-call",)), "we missed one")
    services.change_rule(EDITOR, made.pk, {"threshold": 90, "channels": ()}, "too loud")
    services.change_rule(EDITOR, made.pk, {"threshold": 90})
    services.delete_rule(EDITOR, made.pk, "not needed")
    assert told() == ["alert_rule.create", "alert_rule.change", "alert_rule.delete"]
    entry = AuditEntry.objects.get(action="alert_rule.change")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["threshold"], entry.after["threshold"]) == (60, 90)
    assert (entry.before["channels"], entry.after["channels"]) == (["on-call"], [])
    assert entry.namespace == "booking", "so that people of that namespace see it"


def test_two_rules_do_not_share_a_name_and_two_people_not_a_revision() -> None:
    made = services.create_rule(SYSTEM, draft())
    with pytest.raises(Conflict, match="already a rule"):
        services.create_rule(SYSTEM, draft(name="sLOW"))
    services.change_rule(SYSTEM, made.pk, {"for_s": 5}, revision=1)
    with pytest.raises(Conflict, match="somebody else"):
        services.change_rule(SYSTEM, made.pk, {"for_s": 6}, revision=1)


def test_who_may_edit_a_namespace_cannot_watch_beyond_it() -> None:
    narrow = actor(EDITOR.grants[0].role, "booking.*")
    mine = services.create_rule(narrow, draft(topics="booking.*"))
    for topics in ("*", "payment.taken"):
        with pytest.raises(Forbidden):
            services.create_rule(narrow, draft(name="Wide", topics=topics))
        with pytest.raises(Forbidden):
            services.change_rule(narrow, mine.pk, {"topics": topics})
    everything = services.create_rule(SYSTEM, draft(name="All"))
    with pytest.raises(Forbidden):
        services.change_rule(narrow, everything.pk, {"threshold": 1})
    other = services.create_rule(SYSTEM, draft(name="Theirs", topics="payment.*"))
    with pytest.raises(NotThere):
        services.rule(narrow, other.pk)


def test_channels_are_for_governors_and_their_secret_is_in_no_evidence(
    settings: Settings, told: Told, calling: Callable[..., Any]
) -> None:
    settings.HBUS_WEBHOOK_PRIVATE = True
    wanted = ChannelDraft("on-call", "webhook", "http://127.0.0.1:9/hook")
    with pytest.raises(Forbidden):
        services.create_channel(EDITOR, wanted)
    made = services.create_channel(GOVERNOR, wanted)
    first = made.secret
    second = services.rotate_secret(GOVERNOR, made.pk, "leaked")
    services.change_channel(GOVERNOR, made.pk, {"enabled": False})
    assert first != second
    written = " ".join(str((it.before, it.after, it.reason)) for it in AuditEntry.objects.all())
    shown = calling()("GET", f"alert-channels/{made.pk}").content.decode()
    for secret in (first, second):
        assert secret.startswith("whsec_")
        assert secret not in written
        assert secret not in shown
    assert [it for it in told() if it.startswith("alert")] == [
        "alert_channel.create",
        "alert_channel.rotate_secret",
        "alert_channel.change",
    ]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (ChannelDraft("x", "pigeon"), "kind"),
        (ChannelDraft("x", "webhook", ""), "url"),
        (ChannelDraft("x", "webhook", "http://127.0.0.1/in"), "url"),
        (ChannelDraft("x", "webhook", "http://[::ffff:10.0.0.1]/in"), "url"),
        (ChannelDraft("x", "webhook", "https://u:p@x.example/"), "url"),
        (ChannelDraft("", "webhook", "https://x.example/"), "name"),
        (ChannelDraft("x", "webhook", "https://x.example/", ("a@b.example",)), "recipients"),
        (ChannelDraft("x", "email"), "recipients"),
        (ChannelDraft("x", "email", "", ("nobody",)), "recipients"),
        (ChannelDraft("x", "email", "", ("a@b.example\nBcc: c@d.example",)), "recipients"),
        (ChannelDraft("x", "email", "https://x.example/", ("a@b.example",)), "url"),
    ],
)
def test_a_channel_that_leads_nowhere_good_is_refused(wanted: ChannelDraft, field: str, settings: Settings) -> None:
    settings.EMAIL_HOST = "mail.example"
    with pytest.raises(BadInput) as refused:
        services.create_channel(SYSTEM, wanted)
    assert refused.value.field == field
    assert not Channel.objects.exists()


def test_an_email_channel_needs_a_mail_server() -> None:
    with pytest.raises(BadInput, match="no mail server") as refused:
        services.create_channel(SYSTEM, ChannelDraft("x", "email", recipients=("a@b.example",)))
    assert "EMAIL_HOST" in refused.value.remedy


def test_acknowledging_and_silencing_are_for_operators_leave_one_trace_and_end(watch: Watch, told: Told) -> None:
    rule(threshold=100)
    watch.go(100)
    alert, clock = Alert.objects.get(), watch.clock
    begin = len(told())
    until = clock.now_ms() + 60_000
    with pytest.raises(Forbidden):
        services.acknowledge(VIEWER, alert.pk)
    with pytest.raises(Forbidden):
        services.silence(VIEWER, alert.pk, until_ms=until, reason="x", clock=clock)
    services.acknowledge(OPERATOR, alert.pk, "on it", clock=clock)
    services.acknowledge(OPERATOR, alert.pk, "again", clock=clock)
    assert Alert.objects.get().acknowledged_note == "on it"
    made = services.silence(OPERATOR, alert.pk, until_ms=until, reason="release", clock=clock)
    services.end_silence(OPERATOR, made.pk, clock=clock)
    services.end_silence(OPERATOR, made.pk, clock=clock)
    assert told()[begin:] == ["alert.acknowledge", "alert.silence", "alert.silence.end"]
    assert Silence.objects.get().until_ms == clock.now_ms()
    watch.go(0)
    Alert.objects.update(acknowledged_ms=0)
    with pytest.raises(BadInput, match="is over"):
        services.acknowledge(OPERATOR, alert.pk)


@pytest.mark.parametrize("ahead_s", [-1, 0, 32 * 86_400])
def test_a_silence_ends_in_the_future_and_within_a_month(watch: Watch, ahead_s: int) -> None:
    rule(threshold=100)
    watch.go(100)
    until = watch.clock.now_ms() + ahead_s * 1000
    with pytest.raises(BadInput, match="31 days"):
        services.silence(SYSTEM, Alert.objects.get().pk, until_ms=until, reason="x", clock=watch.clock)
    with pytest.raises(BadInput, match="reason"):
        services.silence(
            SYSTEM, Alert.objects.get().pk, until_ms=watch.clock.now_ms() + 1000, reason=" ", clock=watch.clock
        )


def test_a_preview_says_for_what_it_would_fire_and_stores_nothing(watch: Watch, told: Told) -> None:
    subscription(topic("payment.taken"), "ledger")
    subscription(topic("booking.changed"), "billing", paused=True)
    subscription(topic("booking.cancelled"), "billing")
    watch.clock.advance(10)
    watch.sample(70)
    watch.sample(900, topic="payment.taken", group="ledger")
    found = services.preview(EDITOR, draft(kind="lag", threshold=50), clock=watch.clock)
    assert (found.watched, found.fires, found.unknown, found.paused) == (4, 2, 1, 1)
    assert [(it.subject.namespace, it.said) for it in found.lines] == [
        ("payment.taken", "900 messages"),
        ("booking.created", "70 messages"),
    ]
    narrow = services.preview(
        actor(EDITOR.grants[0].role, "booking.*"),
        draft(kind="lag", threshold=71, topics="booking.*"),
        clock=watch.clock,
    )
    assert [(it.subject.namespace, it.fires) for it in narrow.lines] == [("booking.created", False)]
    assert not Rule.objects.exists()
    assert not [it for it in told() if it.startswith("alert")]


def test_a_preview_of_a_rule_whose_team_is_gone_shows_nothing_and_says_why(watch: Watch) -> None:
    Team.objects.create(name="Gone", contact="#x")
    made = rule(threshold=50, owner="Gone")
    watch.sample(70)
    Team.objects.filter(name="Gone").delete()
    with pytest.raises(BadInput, match="the team to whose things it was narrowed is gone") as refused:
        services.preview(EDITOR, draft(kind="lag", threshold=50), of=made.pk, clock=watch.clock)
    assert refused.value.field == "owner"
    Team.objects.create(name="Other", contact="#x")
    other = services.preview(EDITOR, draft(kind="lag", threshold=50, owner="Other"), of=made.pk, clock=watch.clock)
    assert other.watched == 0
    assert services.preview(EDITOR, draft(kind="lag", threshold=50), clock=watch.clock).watched == 1, "of a new one"


def test_the_first_start_brings_rules_once_and_leaves_a_trace(told: Told) -> None:
    assert services.ensure_defaults() == len(default_rules())
    assert told() == ["alert_rule.create"] * len(default_rules())
    assert Rule.objects.filter(enabled=True).count() == len(default_rules()) - 1
    assert {it.kind for it in Rule.objects.all()} == {
        "lag", "oldest", "dead_letters", "dead_letter_rate", "dead_letter_limit", "parked", "publish_failures",
        "breaker_open", "silent_topic", "no_consumer", "job_failures", "job_silent", "job_late",
        "quota_degraded", "quota_refused_share", "due_refused", "audit_wrong", "spool_waits", "spool_disk",
    }  # fmt: skip
    Rule.objects.all().delete()
    assert services.ensure_defaults() == 0, "who deletes them does not get them again"
    assert Evaluation.objects.get().defaults_made
