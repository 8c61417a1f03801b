"""A starter who loses the right while letters are being decided: nobody decided the others, and it says so."""

from __future__ import annotations

import pytest

from engine.bus.conformance.running import FactRecorder
from engine.core.clock import ManualClock
from hbus_console.access.permissions import Actor
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters import services as letters
from hbus_console.deadletters.models import DeadLetter
from hbus_console.operations import services
from hbus_console.operations.models import Operation
from hbus_console.operations.runner import OperationRunner
from hbus_console.topics.models import Topic
from tests.hbus_console.deadletters.conftest import MakeLetter

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

BOTH = {"subscription": "partner-sync"}


@pytest.fixture
def vera(db: None) -> User:
    user = User.objects.create(username="vera")
    user.grants.create(role="operator", scope="*")
    return user


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def runner(clock: ManualClock) -> OperationRunner:
    return OperationRunner(clock)


def begun(user: User, kind: str, spec: dict[str, object], runner: OperationRunner, clock: ManualClock) -> Operation:
    """Started, and one step done: of one letter."""
    operation = services.start(actor_of(user), kind, spec, reason="map deployed", rate_per_s=1).operation
    runner.tick()
    clock.advance(1)
    return operation


def granted(user: User, role: str, scope: str = "*") -> None:
    user.grants.all().delete()
    user.grants.create(role=role, scope=scope)


@pytest.mark.parametrize("spec", [{"topic": "booking.changed"}, BOTH, {"cause": "UnknownRoomCode"}])
@pytest.mark.parametrize("kind", ["redrive", "discard"])
def test_it_fails_with_the_reason_and_how_many_are_left(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock, *,
    kind: str, spec: dict[str, object],
) -> None:  # fmt: skip
    for _ in range(4):
        make_letter()
    operation = begun(vera, kind, spec, runner, clock)
    granted(vera, "viewer")
    runner.tick()

    operation.refresh_from_db()
    assert (operation.state, operation.done, operation.failed, operation.note) == ("failed", 1, 0, "")
    assert operation.last_error.startswith(
        f"vera, who started it, may not {kind} dead letters on booking.changed any more. 3 things are left as before."
    )
    assert DeadLetter.objects.filter(state="dead").count() == 3
    entry = AuditEntry.objects.get(action="operation.fail", target=str(operation.pk))
    assert (entry.after["state"], entry.after["error"]) == ("failed", operation.last_error)


def test_letters_chosen_one_by_one_are_left_likewise(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock
) -> None:
    chosen = [make_letter().pk for _ in range(3)]
    operation = begun(vera, "redrive", {"letters": chosen}, runner, clock)
    granted(vera, "viewer")
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.done, operation.failed) == ("failed", 1, 0)
    assert "2 things are left as before" in operation.last_error


def test_a_role_narrowed_to_one_of_two_topics_ends_it_where_the_other_is_not_done(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock
) -> None:
    Topic.objects.create(name="payroll.paid", team=Topic.objects.get().team)
    make_letter(), make_letter(), make_letter(topic="payroll.paid")
    operation = begun(vera, "discard", BOTH, runner, clock)
    granted(vera, "operator", "booking.*")
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.done) == ("failed", 1)
    assert "may not discard dead letters on payroll.paid any more. 2 things are left" in operation.last_error


def test_a_role_narrowed_to_what_is_left_goes_on(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock
) -> None:
    Topic.objects.create(name="payroll.paid", team=Topic.objects.get().team)
    make_letter(topic="payroll.paid"), make_letter()
    operation = begun(vera, "discard", BOTH, runner, clock)
    granted(vera, "operator", "booking.*")
    runner.tick()
    clock.advance(1)
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.done, operation.last_error) == ("done", 2, "")


def test_a_role_widened_meanwhile_takes_nothing_in_that_was_in_no_dry_run(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock
) -> None:
    Topic.objects.create(name="payroll.paid", team=Topic.objects.get().team)
    make_letter(), make_letter(), make_letter(topic="payroll.paid")
    granted(vera, "operator", "booking.*")
    operation = begun(vera, "discard", {"cause": "Unknown"}, runner, clock)
    Operation.objects.update(namespace="", spec={**operation.spec})
    granted(vera, "operator")
    for _ in range(3):
        runner.tick()
        clock.advance(1)
    operation.refresh_from_db()
    assert (operation.state, operation.done) == ("done", 2)
    assert DeadLetter.objects.get(topic="payroll.paid").state == "dead"


def test_what_vanished_without_a_decision_is_not_told_as_decided(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock
) -> None:
    quicker, removed = make_letter(), make_letter()
    make_letter()
    operation = services.start(actor_of(vera), "discard", BOTH, reason="why").operation
    letters.discard(Actor("peer", grants=actor_of(vera).grants), quicker.pk, "obsolete")
    removed.delete()
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.total, operation.done) == ("done", 3, 1)
    assert operation.note == (
        "1 thing was no longer there when it came to them: decided by others meanwhile. "
        "1 thing was not found any more, and nothing was done to what is not listed here."
    )


def test_what_its_starter_may_not_do_any_more_is_free_for_others(
    vera: User, make_letter: MakeLetter, facts: FactRecorder, runner: OperationRunner, clock: ManualClock
) -> None:
    make_letter(), make_letter()
    begun(vera, "redrive", BOTH, runner, clock)
    peer = User.objects.create(username="peer")
    granted(peer, "operator")
    assert services.dry_run(actor_of(peer), "redrive", BOTH).total == 0
    granted(vera, "viewer")
    assert services.dry_run(actor_of(peer), "redrive", BOTH).total == 1


def test_a_dry_run_tells_nothing_of_how_many_die_where_one_sees_nothing(vera: User, make_letter: MakeLetter) -> None:
    Topic.objects.create(name="stay.completed")
    seen = make_letter(topic="stay.completed", subscription="guests")
    granted(vera, "operator", "stay.*")
    for _ in range(2):
        make_letter()
        plan = services.dry_run(actor_of(vera), "redrive", {"owner": "nobody of that name"})
        assert (plan.total, plan.horizon) == (0, seen.pk)
