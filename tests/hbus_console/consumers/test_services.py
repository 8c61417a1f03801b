from __future__ import annotations

from typing import Any

import pytest

from engine.core.errors import BadInput, Unavailable
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden, ScopedRole
from hbus_console.audit.models import AuditEntry
from hbus_console.consumers import control, services
from hbus_console.consumers.celery_app import app
from hbus_console.consumers.services import steer, still_at_work, worker_status

pytestmark = pytest.mark.django_db


def actor(role: Role, scope: str = "*") -> Actor:
    return Actor(name="someone", grants=(ScopedRole(role, scope),))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What went to the workers; one answers. The real way is walked by tests/chaos/test_hotel_worker.py."""
    seen: list[tuple[str, Any]] = []

    def broadcast(command: str, **options: Any) -> list[dict[str, Any]]:
        seen.append((command, options["arguments"]))
        return [{"consumer-0@host": {"ok": "done", "subscriptions": []}}]

    monkeypatch.setattr(app.control, "broadcast", broadcast)
    return seen


@pytest.mark.parametrize("act", ["pause", "drain", "resume"])
def test_an_act_reaches_the_workers_and_the_audit_log(act: str, asked: list[Any]) -> None:
    answers = steer(actor(Role.OPERATOR), act, topic="booking.created", group="g", reason="because")
    assert answers == {"consumer-0@host": {"ok": "done", "subscriptions": []}}
    assert asked == [(f"hbus_{act}", {"topic": "booking.created", "group": "g"})]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.namespace, entry.reason) == (
        f"worker.{act}",
        "all",
        "booking.created",
        "because",
    )
    assert entry.after["workers"] == ["consumer-0@host"]


@pytest.mark.parametrize(
    ("who", "topic"),
    [
        (actor(Role.VIEWER), "booking.created"),
        (actor(Role.OPERATOR, "stay.*"), "booking.created"),
        # All topics at once is the whole installation's business.
        (actor(Role.GOVERNOR), ""),
    ],
)
def test_who_may_not_leaves_no_trace_in_the_workers(who: Actor, topic: str, asked: list[Any]) -> None:
    with pytest.raises(Forbidden):
        steer(who, "pause", topic=topic, reason="because")
    assert asked == []


@pytest.mark.parametrize(
    ("act", "reason", "field"), [("pause", " ", "reason"), ("drain", "", "reason"), ("kill", "x", "act")]
)
def test_an_act_without_reason_or_sense_is_refused(act: str, reason: str, field: str, asked: list[Any]) -> None:
    with pytest.raises(BadInput) as refused:
        steer(actor(Role.ADMIN), act, reason=reason)
    assert refused.value.field == field
    assert asked == []


def test_what_could_not_be_sent_is_not_recorded_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def broadcast(*_: Any, **__: Any) -> None:
        raise services.KombuUnreachable("no broker")

    monkeypatch.setattr(app.control, "broadcast", broadcast)
    with pytest.raises(Unavailable, match="cannot be asked"):
        steer(actor(Role.ADMIN), "pause", reason="because")
    assert not AuditEntry.objects.exists()


def test_status_is_for_viewers(asked: list[Any]) -> None:
    assert worker_status(actor(Role.VIEWER)).keys() == {"consumer-0@host"}
    with pytest.raises(Forbidden):
        worker_status(Actor(name="nobody"))


def test_what_a_drain_has_left_is_told_by_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = {"topic": "booking.created", "group": "billing", "in_flight": 2}
    replies = [
        {"one": {"consumers": [busy, {**busy, "group": "other"}]}},
        {"two": {"consumers": []}},
        {"not-drained": {"consumers": [busy]}},
    ]
    monkeypatch.setattr(app.control, "broadcast", lambda *_, **__: replies)
    left = still_at_work(actor(Role.VIEWER), ["one", "two", "gone"], group="billing")
    assert left == {"one": {("booking.created", "billing"): 2}, "gone": {}}


def test_a_worker_that_hosts_nothing_says_so() -> None:
    for command in (control.hbus_status, control.hbus_pause, control.hbus_resume, control.hbus_reconcile):
        assert command(None) == {"error": "this worker hosts no subscriptions"}


@pytest.mark.parametrize(
    ("topic", "group", "matches"),
    [("", "", True), ("t", "", True), ("", "g", True), ("t", "g", True), ("x", "", False), ("t", "x", False)],
)
def test_an_empty_word_matches_all(topic: str, group: str, matches: bool) -> None:
    assert control.chooser(topic, group)(("t", "g")) is matches
