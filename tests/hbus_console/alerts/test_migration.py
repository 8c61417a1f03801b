"""Alerts, silences and readings from before subjects keep everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps

from hbus_console.alerts import services
from hbus_console.alerts.models import Alert, Evaluation, Reading, Rule, Silence

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)
BEFORE, AFTER = [("alerts", "0002_teams")], [("alerts", "0003_subjects")]


def migrate(target: list[tuple[str, str]]) -> StateApps:
    executor = MigrationExecutor(connection)
    executor.migrate(target)
    return executor.loader.project_state(target).apps


@pytest.fixture
def before() -> Iterator[StateApps]:
    """The tables as they were, with what this version would find in them."""
    yield migrate(BEFORE)
    migrate(AFTER)


def _alert(apps: StateApps, **fields: Any) -> Any:
    values = {"rule_name": "Slow", "kind": "oldest", "severity": "warning", "state": "firing", "threshold": 60,
              "value": 90, "peak": 95, "began_ms": 1, "fired_ms": 2, "measured_ms": 3, "acknowledged_by": "ada",
              "acknowledged_ms": 4}  # fmt: skip
    return apps.get_model("alerts", "Alert").objects.create(**{**values, **fields})


def test_what_was_stored_is_about_the_same_things_as_before(before: StateApps) -> None:
    made = before.get_model("alerts", "Rule").objects.create(
        name="Slow", kind="oldest", topics="booking.*", group="part*", threshold=60
    )
    reader = _alert(before, rule=made, topic="booking.created", subscription="billing")
    _alert(before, rule=made, topic="booking.created", subscription="", kind="silent_topic")
    before.get_model("alerts", "Reading").objects.create(alert=reader, at_ms=1, value=90)
    silence = {"by": "ada", "reason": "release", "began_ms": 1, "until_ms": 2}
    silences = before.get_model("alerts", "Silence").objects
    silences.create(topic="booking.created", subscription="billing", rule=made, **silence)
    silences.create(topic="booking.created", **silence)
    before.get_model("alerts", "Evaluation").objects.create(pk=1, defaults_made=True)
    migrate(AFTER)
    assert [str(it.subject) for it in Alert.objects.order_by("pk")] == [
        "subscription:booking.created/billing",
        "topic:booking.created",
    ]
    alert = Alert.objects.get(pk=reader.pk)
    assert (alert.rule_id, alert.state, alert.value, alert.peak, alert.fired_ms) == (made.pk, "firing", 90, 95, 2)
    assert (alert.acknowledged_by, alert.acknowledged_ms) == ("ada", 4)
    assert Reading.objects.get().alert_id == reader.pk
    assert [(str(it.subject), it.rule_id, it.reason) for it in Silence.objects.order_by("pk")] == [
        ("subscription:booking.created/billing", made.pk, "release"),
        ("topic:booking.created", None, "release"),
    ]
    rule = Rule.objects.get()
    assert (rule.scope, rule.pattern, rule.threshold) == ("booking.*", "part*", 60)
    again = Alert.objects.get(pk=reader.pk)
    again.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        again.save(force_insert=True)
    services.ensure_defaults()
    # Who deleted the first rules does not get them again; a kind that is younger than these brings its own.
    assert {it.kind for it in Rule.objects.all()} == {
        "oldest", "no_consumer", "job_failures", "job_silent", "job_late", "quota_degraded", "quota_refused_share",
        "due_refused", "audit_wrong", "spool_waits", "spool_disk",
    }  # fmt: skip


def test_an_installation_that_never_started_still_gets_its_first_rules(before: StateApps) -> None:
    before.get_model("alerts", "Evaluation").objects.create(pk=1)
    migrate(AFTER)
    assert Evaluation.objects.get().defaults_made == []
    assert services.ensure_defaults() > 1
