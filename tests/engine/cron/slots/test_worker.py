"""What a worker does with a run that it was offered."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.core.errors import Unavailable
from engine.cron.slots.running import Held
from engine.cron.slots.steps import Acquire, Begin, Beginning, End, Release, RunState, Step
from engine.cron.slots.worker import Ended, RunWorker
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


def test_a_lease_that_could_not_be_given_up_is_renewed_no_more(hall: Hall) -> None:
    def release(step: Release, now: float) -> None:
        raise Unavailable("it does not answer")

    hall.places.answers(Release, release)
    assert hall.worker.run(hall.run, lambda held, lost: Ended(RunState.DONE)) is RunState.DONE
    hall.pass_time(9.8)
    assert hall.is_held()
    hall.pass_time(0.4)
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
    unheard, over = threading.Event(), threading.Event()

    def act(step: Step) -> Any:
        try:
            return hall.places.act(step)
        except Unavailable:
            if isinstance(step, End):
                unheard.set()
            raise

    def come_back() -> None:
        assert unheard.wait(60)
        hall.pass_time(30)
        hall.places.away.clear()
        while not over.is_set():
            hall.pass_time(0.1)

    def work(held: Held, lost: threading.Event) -> Ended:
        hall.places.away.add(hall.places.database)
        return Ended(RunState.DONE)

    coming = threading.Thread(target=come_back)
    coming.start()
    worker = RunWorker("w1", act, hall.keeper, lambda job: hall.policy, hall.places.clock)
    told = worker.run(hall.run, work)
    over.set()
    coming.join()
    assert told is RunState.DONE
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


def slow_to_begin(hall: Hall, seconds: float) -> None:
    """The database takes so long to begin a run."""
    begin = hall.places.database.begin

    def late(step: Begin, now: float) -> Beginning:
        beginning = begin(step, now)
        hall.places.clock.advance(seconds)
        return beginning

    hall.places.answers(Begin, late)


def test_a_run_that_began_late_has_a_whole_lease_for_its_work(hall: Hall) -> None:
    slow_to_begin(hall, 8)

    def work(held: Held, lost: threading.Event) -> Ended:
        hall.pass_time(4)
        assert not lost.is_set()
        return Ended(RunState.DONE)

    assert hall.worker.run(hall.run, work) is RunState.DONE


def test_no_work_begins_whose_lease_is_spent_before_it(hall: Hall) -> None:
    slow_to_begin(hall, 11)
    assert hall.worker.run(hall.run, lambda held, lost: pytest.fail("another may have it")) is None
    # As of a worker that is gone: the sweeper finds it.
    assert (hall.row[0], hall.is_held()) == (RunState.RUNNING, False)


def test_no_work_begins_whose_lease_cannot_be_renewed_before_it(hall: Hall) -> None:
    slow_to_begin(hall, 6)
    begin = hall.places.act

    def act(step: Step) -> Any:
        answer = begin(step)
        if isinstance(step, Begin):
            hall.places.away.add(hall.places.store)
        return answer

    worker = RunWorker("w1", act, hall.keeper, lambda job: hall.policy, hall.places.clock)
    assert worker.run(hall.run, lambda held, lost: pytest.fail("nobody knows whose it is")) is None
    hall.places.away.clear()
    hall.pass_time(10)
    assert (hall.row[0], hall.is_held()) == (RunState.RUNNING, False)
