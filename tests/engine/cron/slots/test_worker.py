"""What a worker does with a run that it was offered."""

from __future__ import annotations

import threading

import pytest

from engine.core.errors import Unavailable
from engine.cron.slots.running import Held
from engine.cron.slots.steps import Acquire, RunState
from engine.cron.slots.worker import Ended
from tests.engine.cron.slots.hall import Hall


@pytest.fixture
def hall() -> Hall:
    return Hall()


def test_work_is_done_under_a_lease_that_is_renewed_and_given_up(hall: Hall) -> None:
    def work(held: Held, lost: threading.Event) -> Ended:
        hall.pass_time(60)
        assert hall.is_held()
        assert hall.row[0] is RunState.RUNNING
        assert not lost.is_set()
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.DONE
    assert hall.row == (RunState.DONE, "")
    assert not hall.is_held()
    # Nothing goes on renewing it.
    hall.pass_time(20)
    assert not hall.is_held()


def test_an_error_fails_the_run_with_its_words(hall: Hall) -> None:
    def work(held: Held, lost: threading.Event) -> Ended:
        raise ValueError("no rate for room Z")

    assert hall.worker.run(hall.run, work) is RunState.FAILED
    assert hall.row == (RunState.FAILED, "ValueError: no rate for room Z")


def test_what_another_has_is_not_begun(hall: Hall) -> None:
    assert hall.places.act(Acquire(hall.run, "another", 30.0, 0))
    assert hall.worker.run(hall.run, lambda held, lost: pytest.fail("it is another's")) is None
    assert hall.row[0] is RunState.CLAIMED


def test_what_is_over_is_not_begun_again(hall: Hall) -> None:
    assert hall.worker.run(hall.run, lambda held, lost: Ended(RunState.DONE)) is RunState.DONE
    assert hall.worker.run(hall.run, lambda held, lost: pytest.fail("it was done")) is None


def test_a_lease_that_is_lost_stops_the_work_and_ends_the_run(hall: Hall) -> None:
    def work(held: Held, lost: threading.Event) -> Ended:
        hall.places.store.flush()
        hall.pass_time(5.2)
        assert lost.is_set()
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.LOST
    assert hall.row == (RunState.LOST, "its lease was lost while it ran")


def test_a_store_that_is_away_is_asked_again_until_a_quarter_of_the_lease_is_left(hall: Hall) -> None:
    def work(held: Held, lost: threading.Event) -> Ended:
        hall.places.away.add(hall.places.store)
        hall.pass_time(7.3)
        assert not lost.is_set()
        hall.places.away.clear()
        hall.pass_time(30)
        assert not lost.is_set()
        hall.places.away.add(hall.places.store)
        # It was renewed up to half a lease ago.
        hall.pass_time(7.6)
        assert lost.is_set()
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.LOST


def test_how_it_ended_is_told_once_the_database_is_back(hall: Hall) -> None:
    def come_back() -> None:
        hall.pass_time(30)
        hall.places.away.clear()
        while hall.row[0] is RunState.RUNNING:
            hall.pass_time(0.1)

    def work(held: Held, lost: threading.Event) -> Ended:
        hall.places.away.add(hall.places.database)
        threading.Thread(target=come_back).start()
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.DONE
    assert hall.row == (RunState.DONE, "")


def test_a_database_that_stays_away_longer_than_the_lease_leaves_the_run_to_the_sweeper(hall: Hall) -> None:
    def work(held: Held, lost: threading.Event) -> Ended:
        hall.places.away.update((hall.places.database, hall.places.store))
        hall.pass_time(8)
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.LOST
    assert hall.row[0] is RunState.RUNNING


def test_what_cannot_be_begun_is_told_and_stays_as_it_was(hall: Hall) -> None:
    for place in (hall.places.database, hall.places.store):
        hall.places.away = {place}
        with pytest.raises(Unavailable):
            hall.worker.run(hall.run, lambda held, lost: pytest.fail("it was not begun"))
    assert hall.row[0] is RunState.CLAIMED
