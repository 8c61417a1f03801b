"""A decision of a process that died does not read as one that was carried out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.core.clock import ManualClock
from engine.core.errors import HbusError, OutcomeUnknown
from engine.core.subject import Subject
from hbus_console.access.context import RequestContext, bound
from hbus_console.access.permissions import Actor
from hbus_console.audit.decisions import StoreDecision, carry_out, found_done, last_decision
from hbus_console.audit.left_behind import note_unanswered
from hbus_console.audit.models import AuditEntry, OpenDecision
from hbus_console.audit.open_decisions import PATIENCE, UntoldDecisions

pytestmark = [
    pytest.mark.django_db(databases=["default", "ledger"], transaction=True),
    pytest.mark.usefixtures("audit_state"),
]
MARIA = Actor("maria", user_id=7)
DECISION = StoreDecision(MARIA, "message.publish", Subject("message", "m1", "booking.created"), "why")


class Killed(BaseException):
    """The process, in the midst of it."""


def told() -> list[str]:
    return [each.action for each in AuditEntry.objects.order_by("seq")]


def later(seconds: float) -> UntoldDecisions:
    clock = ManualClock()
    at = AuditEntry.objects.latest("seq").at
    clock.advance(at.timestamp() + seconds - clock.now_ms() / 1000)
    return UntoldDecisions(clock)


def killed() -> None:
    raise Killed


def test_what_is_done_is_open_only_until_then() -> None:
    assert carry_out(DECISION, OpenDecision.objects.count) == 1
    assert not OpenDecision.objects.exists()
    later(3_600).tick()
    assert told() == ["message.publish"]


@pytest.mark.parametrize("error", [HbusError("full"), OutcomeUnknown("lost"), ArithmeticError("ours")], ids=str)
def test_what_was_told_is_not_told_again(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        carry_out(DECISION, fail)
    assert not OpenDecision.objects.exists()


def test_of_what_a_process_left_when_it_died_the_log_says_that_nobody_knows() -> None:
    with pytest.raises(Killed):
        carry_out(DECISION, killed)
    later(PATIENCE.total_seconds() - 1).tick()
    assert told() == ["message.publish"]
    duty = later(PATIENCE.total_seconds() + 1)
    duty.tick()
    duty.tick()
    assert told() == ["message.publish", "message.publish.unknown"]
    decision, unknown = AuditEntry.objects.order_by("seq")
    assert (unknown.actor, unknown.reason, unknown.after["decision"]) == ("maria", "why", decision.seq)
    assert not OpenDecision.objects.exists()


def test_what_was_done_after_all_is_told() -> None:
    carry_out(DECISION, lambda: later(PATIENCE.total_seconds() + 1).tick())
    assert told() == ["message.publish", "message.publish.unknown", "message.publish.done"]


def test_what_the_keeper_told_is_of_the_request_that_decided_it() -> None:
    with bound(RequestContext("req-1", "form-1")), pytest.raises(Killed):
        carry_out(DECISION, killed)
    later(PATIENCE.total_seconds() + 1).tick()
    assert {(each.request_id, each.correlation_id) for each in AuditEntry.objects.all()} == {("req-1", "form-1")}


def test_a_repeat_does_not_say_again_that_nobody_knows_what_another_request_has_found_out() -> None:
    with bound(RequestContext("req-1")), pytest.raises(Killed):
        carry_out(DECISION, killed)
    entry = AuditEntry.objects.get()
    since = entry.at - timedelta(seconds=1)
    with bound(RequestContext("req-2")):
        found_done(MARIA, entry, entry.subject)
    note_unanswered(MARIA, ["req-1"], since)
    assert told() == ["message.publish", "message.publish.done"]


def test_a_decision_that_came_to_nothing_is_none_although_nobody_knew_for_a_while() -> None:
    def fail() -> None:
        later(PATIENCE.total_seconds() + 1).tick()
        raise HbusError("full")

    with pytest.raises(HbusError):
        carry_out(DECISION, fail)
    assert told() == ["message.publish", "message.publish.unknown", "message.publish.failed"]
    assert last_decision(AuditEntry.objects.latest("seq").subject, ["message.publish"]) is None
