"""The same over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from engine.core.clock import SystemClock
from hbus_console.access.acts import Role
from hbus_console.alerts.models import Alert, Rule
from tests.hbus_console.alerts.conftest import Watch, rule
from tests.hbus_console.kept import kept

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Calling = Callable[..., Callable[..., Any]]


def test_a_rules_life(calling: Calling) -> None:
    call = calling(Role.EDITOR)
    wanted = {"name": "Slow", "kind": "oldest", "threshold": 60, "topics": "booking.*", "reason": "missed one"}
    made = call("POST", "alert-rules", wanted)
    assert made.status_code == 201
    number = made.json()["id"]
    assert made.json()["clear_below"] is None
    assert [it["name"] for it in call("GET", "alert-rules").json()["results"]] == ["Slow"]
    changed = call("PATCH", f"alert-rules/{number}", {"threshold": 90, "clear_below": 30, "revision": 1}).json()
    assert (changed["threshold"], changed["clear_below"], changed["revision"]) == (90, 30, 2)
    again = call("PATCH", f"alert-rules/{number}", {"threshold": 95, "revision": 1})
    assert again.status_code == 409
    refused = call("PATCH", f"alert-rules/{number}", {"kind": "lag"})
    assert (refused.status_code, refused.json()["field"]) == (422, "kind")
    untold = call("POST", f"alert-rules/{number}/test")
    assert untold.json()["field"] == "channels"
    assert call("DELETE", f"alert-rules/{number}", {"reason": "not needed"}).status_code == 204
    assert not Rule.objects.exists()


def test_an_alerts_life(calling: Calling, watch: Watch) -> None:
    rule(threshold=100)
    watch.go(100)
    call, number = calling(Role.OPERATOR), Alert.objects.get().pk
    [listed] = call("GET", "alerts").json()["results"]
    assert (listed["state"], listed["standing"], listed["subscription"]) == ("firing", "firing", "billing")
    assert (listed["topic"], listed["namespace"], listed["name"]) == ("booking.created", "booking.created", "billing")
    assert call("POST", f"alerts/{number}/acknowledge", {"note": "mine"}).json()["acknowledged_by"].endswith("/test")
    made = call("POST", f"alerts/{number}/silence", {"minutes": 5, "reason": "release"})
    assert made.status_code == 201
    assert call("GET", f"alerts/{number}").json()["standing"] == "silenced"
    assert [it["reason"] for it in call("GET", "alert-silences").json()["results"]] == ["release"]
    assert call("DELETE", f"alert-silences/{made.json()['id']}").status_code == 204
    assert call("GET", f"alerts/{number}").json()["standing"] == "acknowledged"
    refused = call("POST", f"alerts/{number}/silence", {"minutes": 0, "reason": "release"})
    assert refused.json()["field"] == "until"
    assert call("GET", "alerts?state=resolved").json()["results"] == []
    assert call("GET", "alerts/evaluation").json()["state"] == "behind", "the test's clock is not ours"


def test_the_figures_of_an_evaluation_are_those_of_the_readers_scope(calling: Calling, watch: Watch) -> None:
    for name, topics in (("all", "*"), ("bookings", "booking.*"), ("payments", "payment.*")):
        rule(name=name, topics=topics)
    watch.go(100)
    everything = calling(Role.VIEWER)("GET", "alerts/evaluation").json()
    assert (everything["rules"], everything["targets"]) == (3, 2)
    narrow = calling(Role.VIEWER, "booking.*")("GET", "alerts/evaluation").json()
    assert (narrow["rules"], narrow["targets"]) == (2, None)


def test_a_preview_over_http(calling: Calling, watch: Watch) -> None:
    kept(SystemClock().now_ms())
    found = calling(Role.EDITOR)("POST", "alert-rules/preview", {"name": "x", "kind": "dead_letters", "threshold": 1})
    assert found.json() == {
        "watched": 1,
        "fires": 0,
        "unknown": 0,
        "paused": 0,
        "lines": [
            {
                "subject": "subscription:booking.created/billing",
                "topic": "booking.created",
                "subscription": "billing",
                "value": 0.0,
                "fires": False,
            }
        ],
    }


def test_a_preview_over_http_of_a_rule_whose_team_is_gone(calling: Calling, watch: Watch) -> None:
    made = rule()
    Rule.objects.filter(pk=made.pk).update(of_team=True)
    wanted = {"name": "x", "kind": "dead_letters", "threshold": 1}
    refused = calling(Role.EDITOR)("POST", f"alert-rules/preview?rule={made.pk}", wanted)
    assert (refused.status_code, refused.json()["field"]) == (422, "owner")


def test_a_channels_life(calling: Calling) -> None:
    call = calling(Role.GOVERNOR)
    made = call("POST", "alert-channels", {"name": "on-call", "kind": "webhook", "url": "https://x.example/in"})
    number = made.json()["id"]
    assert made.json()["secret"].startswith("whsec_")
    assert "secret" not in call("GET", f"alert-channels/{number}").json()
    assert calling(Role.VIEWER)("GET", f"alert-channels/{number}").json()["url"] is None
    new = call("POST", f"alert-channels/{number}/rotate-secret", {"reason": "leaked"}).json()["secret"]
    assert new != made.json()["secret"]
    keyed = call("POST", f"alert-channels/{number}/rotate-secret", {"reason": "x"}, **{"Idempotency-Key": "abc"})
    assert (keyed.status_code, keyed.json()["field"]) == (422, "Idempotency-Key")
    changed = call("PATCH", f"alert-channels/{number}", {"enabled": False}).json()
    assert changed["enabled"] is False
    assert call("DELETE", f"alert-channels/{number}", {"reason": "gone"}).status_code == 204


def test_a_list_costs_two_queries_however_long_it_is(calling: Calling) -> None:
    call, state = calling(Role.OPERATOR), Alert.State.FIRING
    common = {"rule_name": "r", "kind": "lag", "severity": "warning", "threshold": 1, "value": 2, "peak": 2}
    counts = []
    for number in (1, 30):
        Alert.objects.bulk_create(
            Alert(subject_kind="topic", namespace=f"t.{n}", state=state, began_ms=1, measured_ms=1, **common)
            for n in range(number)
        )
        with CaptureQueriesContext(connection) as seen:
            assert call("GET", "alerts").json()["results"]
        counts.append(sum('FROM "alerts_alert"' in it["sql"] or "alerts_silence" in it["sql"] for it in seen))
    assert counts == [2, 2]
