from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.core.management import call_command
from kombu.matcher import match

from engine.core.errors import BadInput, OutcomeUnknown, Unavailable
from hbus_console.access.acts import Role
from hbus_console.access.permissions import Actor, Forbidden, ScopedRole
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.words import did
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


@pytest.mark.parametrize("act", ["pause", "drain", "resume"])
def test_what_may_have_been_sent_is_recorded_as_that(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broadcast(*_: Any, **__: Any) -> None:
        raise redis.ConnectionError("Connection closed by server.")

    monkeypatch.setattr(app.control, "broadcast", broadcast)
    with pytest.raises(OutcomeUnknown):
        steer(actor(Role.ADMIN), act, topic="booking.created", reason="because")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.reason, entry.after["workers"]) == (f"worker.{act}.unknown", "because", [])
    assert did(entry).startswith("got no answer, so nobody knows whether it was done: ")
    # A question leaves nothing to wonder about
    with pytest.raises(Unavailable) as refused:
        worker_status(actor(Role.ADMIN))
    assert not isinstance(refused.value, OutcomeUnknown)


HOSTS_NONE = "this worker hosts no subscriptions"


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets workers answer with what it is given."""

    def let(**answers: dict[str, Any]) -> None:
        replies = [{name: answer} for name, answer in answers.items()]
        monkeypatch.setattr(app.control, "broadcast", lambda *_, **__: replies)

    return let


@pytest.mark.parametrize("said", ["KeyError('hbus_pause')", HOSTS_NONE])
def test_an_act_that_every_worker_refused_is_not_recorded_as_done(answering: Callable[..., None], said: str) -> None:
    answering(one={"error": said})
    assert steer(actor(Role.ADMIN), "pause", worker="one", reason="because") == {"one": {"error": said}}
    assert not AuditEntry.objects.exists()


def test_an_act_is_recorded_of_those_who_did_it(answering: Callable[..., None]) -> None:
    answering(one={"error": HOSTS_NONE}, two={"ok": "paused", "subscriptions": []})
    steer(actor(Role.ADMIN), "pause", reason="because")
    assert AuditEntry.objects.get().after["workers"] == ["two"]


@pytest.mark.parametrize("act", ["pause", "drain", "resume", "status"])
def test_a_command_that_a_worker_refused_says_so_and_fails(
    answering: Callable[..., None], capsys: pytest.CaptureFixture[str], act: str
) -> None:
    answering(one={"error": HOSTS_NONE})
    with pytest.raises(SystemExit) as ended:
        call_command("consumers", act, "--worker", "one", "--reason", "because")
    said = capsys.readouterr()
    assert ended.value.code == 1
    assert HOSTS_NONE in said.out + said.err
    assert "Drained" not in said.out


def test_a_drain_is_waited_for_on_those_who_do_it(
    answering: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    answering(one={"error": HOSTS_NONE}, two={"ok": "drained", "subscriptions": [], "consumers": []})
    with pytest.raises(SystemExit):
        call_command("consumers", "drain", "--reason", "because")
    assert "Drained: nothing of it runs on two." in capsys.readouterr().out


def test_all_workers_are_those_of_the_consumer_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of other roles on the same broker are not asked: matched as the workers themselves match."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(app.control, "broadcast", lambda *_, **options: asked.append(options))
    worker_status(actor(Role.VIEWER))
    worker_status(actor(Role.VIEWER), "jobs-0@vm")
    everybody, one = asked
    for name, meant in (("consumer-0@vm", True), ("consumer-12@a.b", True), ("jobs-0@vm", False), ("celery@vm", False)):
        assert match(name, everybody["pattern"], everybody["matcher"]) is meant
    assert (one["destination"], "pattern" in one) == (["jobs-0@vm"], False)


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
