from __future__ import annotations

import gc
import weakref

import pytest
from django.db import DataError, OperationalError

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Unavailable
from engine.core.pacing import Pace
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.operations import kinds, services
from hbus_console.operations import runner as running
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.operations.runner import TRIES, OperationRunner
from tests.hbus_console.operations.conftest import Words

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


def start(actor: Actor, *said: str, rate_per_s: int = 0) -> Operation:
    return services.start(actor, "words", {"words": list(said)}, reason="why", rate_per_s=rate_per_s).operation


def said() -> list[str]:
    return list(OperationItem.objects.order_by("pk").values_list("name", flat=True))


def test_it_runs_to_its_end_with_a_result_for_each(
    operator: Actor, words: Words, runner: OperationRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "STEP", 2)
    operation = start(operator, "a", "skip", "c", "d", "e")

    runner.tick()

    operation.refresh_from_db()
    assert (operation.state, operation.done, operation.skipped, operation.failed) == ("done", 4, 1, 0)
    assert (operation.percent, operation.scanned, operation.note) == (100, 5, "5 said")
    assert None not in (operation.started_at, operation.ended_at, operation.moved_at)
    assert said() == ["a", "skip", "c", "d", "e"]
    end = AuditEntry.objects.get(action="operation.end")
    assert (end.actor, end.after["done"], end.after["started_in"]) == ("system", 4, operation.audit_seq)


def test_it_keeps_its_rate(operator: Actor, words: Words, runner: OperationRunner, clock: ManualClock) -> None:
    start(operator, *"abcdefghij", rate_per_s=2)
    counts = []
    for _ in range(5):
        runner.tick()
        counts.append(len(said()))
        clock.advance(1.0)
    assert counts == [1, 3, 5, 7, 9]


def test_operations_take_turns(
    operator: Actor, words: Words, runner: OperationRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "STEP", 1)
    start(operator, "a1", "a2")
    start(operator, "b1", "b2")
    runner.tick()
    assert said() == ["a1", "b1", "a2", "b2"]


def test_a_paused_one_rests_and_goes_on_where_it_was(
    operator: Actor, words: Words, runner: OperationRunner, clock: ManualClock
) -> None:
    operation = start(operator, "a", "b", "c", rate_per_s=1)
    runner.tick()
    services.pause(operator, operation.pk, "hold")
    clock.advance(10)
    runner.tick()
    assert said() == ["a"]
    services.resume(operator, operation.pk, "go on")
    for _ in range(3):
        runner.tick()
        clock.advance(1)
    assert said() == ["a", "b", "c"]


def test_one_that_somebody_cancelled_leaves_nothing_behind(
    operator: Actor, words: Words, runner: OperationRunner, clock: ManualClock
) -> None:
    words.held_to = Pace(1.0, clock)
    pace = weakref.ref(words.held_to)
    operation = start(operator, "a", "b", "c")
    runner.tick()
    words.held_to = None
    assert pace() is not None, "it goes on by it"
    services.cancel(operator, operation.pk, "stop")
    runner.tick()
    gc.collect()
    assert pace() is None


def test_a_kind_lets_go_of_what_has_ended_or_is_held(
    operator: Actor, words: Words, runner: OperationRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "STEP", 1)
    ends, held = start(operator, "a"), start(operator, "b", "c", rate_per_s=1)
    runner.tick()
    assert words.let_gone == [ends.pk]
    services.pause(operator, held.pk, "lunch")
    runner.tick()
    runner.tick()
    assert words.let_gone == [ends.pk, held.pk]


def test_a_cancel_during_a_step_takes_the_step_back(operator: Actor, words: Words, runner: OperationRunner) -> None:
    operation = start(operator, "a", "b")
    words.during = lambda: services.cancel(operator, operation.pk, "stop")  # type: ignore[assignment,return-value]

    runner.tick()

    # The cancel was made inside the step's transaction here, so it went with it; the operation did not advance.
    operation.refresh_from_db()
    assert said() == []
    assert operation.done == 0


def test_a_cancel_while_a_step_looks_leaves_nothing_done(
    operator: Actor, words: Words, runner: OperationRunner
) -> None:
    operation = start(operator, "a", "b")
    words.looking = lambda: services.cancel(operator, operation.pk, "stop")  # type: ignore[assignment,return-value]

    runner.tick()

    operation.refresh_from_db()
    assert (operation.state, operation.done, said()) == ("cancelled", 0, [])


def test_a_second_runner_cannot_repeat_a_step(operator: Actor, words: Words, clock: ManualClock) -> None:
    operation = start(operator, "a", "b")
    stale = Operation.objects.get(pk=operation.pk)
    OperationRunner(clock).tick()

    assert OperationRunner(clock)._advance(stale) is False
    assert said() == ["a", "b"]


def test_what_cannot_be_reached_is_tried_again(operator: Actor, words: Words, runner: OperationRunner) -> None:
    operation = start(operator, "a", "b")
    words.broken["b"] = Unavailable("The store is away.")
    for _ in range(TRIES + 1):
        runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.last_error, said()) == ("queued", "The store is away.", [])

    words.broken.clear()
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.last_error) == ("done", "")


def test_a_kind_that_breaks_again_and_again_fails_its_operation_and_no_other(
    operator: Actor, words: Words, runner: OperationRunner
) -> None:
    operation, other = start(operator, "a", "poison"), start(operator, "fine")
    words.broken["poison"] = ZeroDivisionError("by zero")
    for _ in range(TRIES):
        runner.tick()
    operation.refresh_from_db()
    other.refresh_from_db()
    assert (operation.state, operation.last_error) == ("failed", "ZeroDivisionError: by zero")
    assert other.state == "done"
    assert AuditEntry.objects.get(action="operation.fail").after["error"] == operation.last_error


def test_grants_taken_away_meanwhile_count(
    operator: Actor, words: Words, runner: OperationRunner, clock: ManualClock
) -> None:
    operation = start(operator, "a", "b", rate_per_s=1)
    runner.tick()
    User.objects.get(username="olga").grants.all().delete()
    clock.advance(1)
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.done, operation.failed) == ("failed", 1, 0)
    assert operation.last_error == (
        "olga, who started it, may not redrive dead letters on booking.changed any more. 1 thing is left as before. "
        "Whoever may do it there can start it again for what is left."
    )


def test_what_is_of_a_kind_that_is_gone_fails_and_says_why(
    operator: Actor, words: Words, runner: OperationRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = start(operator, "a")
    monkeypatch.delitem(kinds._kinds(), "words")
    runner.tick()
    operation.refresh_from_db()
    assert operation.state == "failed"
    assert operation.last_error.startswith("The kind 'words' is not installed. Install the feature")


def test_what_the_database_refuses_however_often_it_is_asked_fails_the_operation(
    operator: Actor, words: Words, runner: OperationRunner
) -> None:
    operation = start(operator, "a", "odd")
    words.broken["odd"] = DataError("value too long for type character varying(200)")
    for _ in range(TRIES):
        runner.tick()
    operation.refresh_from_db()
    assert operation.state == "failed"


def test_a_database_that_is_away_is_waited_for(operator: Actor, words: Words, runner: OperationRunner) -> None:
    operation = start(operator, "a")
    words.broken["a"] = OperationalError("the connection was closed")
    for _ in range(TRIES + 1):
        runner.tick()
    operation.refresh_from_db()
    assert operation.state == "queued"


class _Limit:
    """What limits who started it."""

    why = "It waits for its turn: the quota policy partners lets no more through for now."
    holds = True

    def __init__(self) -> None:
        self.left = 0

    def take(self, most: int) -> int:
        got = min(most, self.left)
        self.left -= got
        return got

    def give_back(self, count: int) -> None:
        self.left += count

    def again_s(self) -> float:
        return 0.1


def test_a_kind_whose_limit_cannot_be_asked_fails_its_own_operation_alone(
    operator: Actor, words: Words, runner: OperationRunner
) -> None:
    class _Broken(_Limit):
        def take(self, most: int) -> int:
            raise BadInput("a name that no limit can have")

    words.held_to = _Broken()
    operation = start(operator, "a")
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, said()) == ("failed", [])
    assert "a name that no limit can have" in operation.last_error
    words.held_to = None
    start(operator, "b")
    runner.tick()
    assert said() == ["b"]


def test_a_limit_of_whoever_started_it_holds_it_beside_its_rate_and_says_so(
    operator: Actor, words: Words, runner: OperationRunner, clock: ManualClock
) -> None:
    words.held_to = limit = _Limit()
    operation = start(operator, *"abcdef", rate_per_s=4)
    runner.tick()
    operation.refresh_from_db()
    assert (said(), operation.state, operation.last_error) == ([], "queued", limit.why)
    limit.left = 3
    clock.advance(1.0)
    runner.tick()
    operation.refresh_from_db()
    assert said() == ["a", "b", "c"]
    limit.left = 100
    runner.tick()
    assert said() == ["a", "b", "c", "d"], "its own rate holds as well"
    clock.advance(10.0)
    runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.last_error) == ("done", "")
    assert limit.left == 97, "what was not used went back"
