from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from engine.core.clock import ManualClock
from engine.core.duties import AGAIN_S, HUNG_AFTER_S, DutyRunner
from engine.core.errors import Unavailable

PATIENCE_S = 60.0


class Counting:
    """A duty that counts its ticks and then does what it is told."""

    interval_s = 10.0

    def __init__(self, name: str = "count", then: Callable[[int], None] | None = None) -> None:
        self.name = name
        self.ticks = 0
        self._then = then
        self._changed = threading.Condition()

    def tick(self) -> None:
        with self._changed:
            self.ticks += 1
            self._changed.notify_all()
        if self._then is not None:
            self._then(self.ticks)

    def wait_for(self, ticks: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.ticks >= ticks, PATIENCE_S), self.ticks


def assert_set(event: threading.Event) -> None:
    assert event.wait(PATIENCE_S)


def until(true: Callable[[], bool], between: Callable[[], object] = lambda: None) -> None:
    pause = threading.Event()
    for _ in range(3_000):
        if true():
            return
        between()
        pause.wait(0.005)
    raise AssertionError("it never became true")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_duty_ticks_at_once_and_then_every_interval(clock: ManualClock) -> None:
    duty = Counting()
    runner = DutyRunner([duty], clock=clock)
    runner.start()
    duty.wait_for(1)
    until(lambda: duty.ticks == 2, lambda: clock.advance(1))
    assert clock.monotonic() >= 10
    assert runner.stop()
    (status,) = runner.status()
    assert (status.name, status.state, status.ticks, status.failures) == ("count", "stopped", 2, 0)
    assert status.last_tick_ms > 0


def test_what_is_seldom_done_is_tried_again_soon_after_it_failed(clock: ManualClock) -> None:
    def fail_once(tick: int) -> None:
        if tick == 1:
            raise Unavailable("the store is away")

    duty = Counting(then=fail_once)
    duty.interval_s = 600.0
    runner = DutyRunner([duty], clock=clock)
    runner.start()
    until(lambda: duty.ticks == 2, lambda: clock.advance(1))
    assert AGAIN_S <= clock.monotonic() < 60
    assert runner.stop()


@pytest.mark.parametrize("error", [ValueError("a defect"), Unavailable("the store is away"), SystemExit(1)])
def test_an_exception_is_counted_shown_and_not_the_end(
    clock: ManualClock, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail_once(tick: int) -> None:
        if tick == 1:
            raise error

    duty = Counting(then=fail_once)
    runner = DutyRunner([duty], clock=clock)
    runner.start()
    until(lambda: runner.status()[0].failures == 1)
    assert runner.status()[0].last_error.startswith(type(error).__name__)
    until(lambda: duty.ticks == 2, lambda: clock.advance(1))
    assert "duty count" in caplog.text
    until(lambda: runner.status()[0].last_error == "")
    assert runner.stop()


class OnePlace:
    """Leases that exclude each other within this process."""

    def __init__(self) -> None:
        self.owner: Contended | None = None
        self.epoch = 0
        self.failing = False
        self.made: list[Contended] = []

    def __call__(self, name: str) -> Contended:
        self.made.append(Contended(self))
        return self.made[-1]


class Contended:
    """An ownership that others of its place can have."""

    ttl_s = 6.0
    clean = True

    def __init__(self, place: OnePlace) -> None:
        self._place = place
        self._epoch = 0
        self.renewals = 0

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def held(self) -> bool:
        return self._place.owner is self

    def acquire(self) -> int:
        if self._place.failing:
            raise Unavailable("no lease store")
        if self._place.owner not in (None, self):
            return 0
        if self._place.owner is None:
            self._place.owner = self
            self._place.epoch += 1
            self._epoch = self._place.epoch
        return self._epoch

    def renew(self) -> bool:
        self.renewals += 1
        return self.held

    def release(self) -> None:
        if self.held:
            self._place.owner = None


def test_two_runners_share_a_duty_and_one_takes_over(clock: ManualClock) -> None:
    place = OnePlace()
    duties = [Counting(), Counting()]
    runners = [DutyRunner([duty], leases=place, clock=clock) for duty in duties]
    runners[0].start()
    duties[0].wait_for(1)
    runners[1].start()
    until(lambda: duties[0].ticks >= 3, lambda: clock.advance(1))
    assert duties[1].ticks == 0
    assert (runners[0].status()[0].state, runners[1].status()[0].state) == ("running", "elsewhere")
    assert runners[0].stop()
    until(lambda: duties[1].ticks >= 1, lambda: clock.advance(0.5))
    assert runners[1].status()[0].epoch == 2
    assert runners[1].stop()
    assert place.owner is None


def test_a_lease_is_renewed_while_a_tick_takes_long_and_until_a_drain_has_ended(clock: ManualClock) -> None:
    place = OnePlace()
    go_on = threading.Event()
    duty = Counting(then=lambda tick: assert_set(go_on))
    runner = DutyRunner([duty], leases=place, clock=clock)
    runner.start()
    duty.wait_for(1)
    until(lambda: place.made[0].renewals >= 3, lambda: clock.advance(1))
    stopped: list[bool] = []
    stopper = threading.Thread(target=lambda: stopped.append(runner.stop(1_000_000.0)))
    stopper.start()
    before = place.made[0].renewals
    until(lambda: place.made[0].renewals > before + 1, lambda: clock.advance(1))
    assert place.made[0].held
    go_on.set()
    stopper.join(PATIENCE_S)
    assert stopped == [True]
    assert not place.made[0].held


def test_a_renewal_that_hangs_does_not_hold_up_the_end(clock: ManualClock) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Hanging(Contended):
        def renew(self) -> bool:
            asked.set()
            return go_on.wait(PATIENCE_S)

    place = OnePlace()
    duty = Counting()
    runner = DutyRunner([duty], leases=lambda name: Hanging(place), clock=clock)
    runner.start()
    duty.wait_for(1)
    until(asked.is_set, lambda: clock.advance(1))
    stopped: list[bool] = []
    stopper = threading.Thread(target=lambda: stopped.append(runner.stop(2.0)))
    stopper.start()
    until(lambda: bool(stopped), lambda: clock.advance(1))
    assert stopped == [False]
    assert not go_on.is_set()
    go_on.set()
    stopper.join()


def test_each_tick_runs_in_the_context_given(clock: ManualClock) -> None:
    said: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        said.append("before")
        yield
        said.append("after")

    duty = Counting(then=lambda tick: said.append("tick"))
    runner = DutyRunner([duty], clock=clock, around=around)
    runner.start()
    until(lambda: duty.ticks >= 2, lambda: clock.advance(1))
    assert runner.stop()
    assert said[:6] == ["before", "tick", "after"] * 2


def test_an_absent_lease_store_stops_the_duty_but_not_its_thread(clock: ManualClock) -> None:
    place = OnePlace()
    place.failing = True
    duty = Counting()
    runner = DutyRunner([duty], leases=place, clock=clock)
    runner.start()
    until(lambda: runner.status()[0].state == "store lost")
    assert duty.ticks == 0
    place.failing = False
    until(lambda: duty.ticks == 1, lambda: clock.advance(0.5))
    assert runner.stop()


def test_a_drain_ends_at_its_deadline_and_a_hanging_tick_shows(clock: ManualClock) -> None:
    go_on = threading.Event()
    duty = Counting(then=lambda tick: assert_set(go_on))
    runner = DutyRunner([duty], clock=clock)
    runner.start()
    duty.wait_for(1)
    clock.advance(100)
    assert runner.status()[0].loop_age_s == 100
    stopped: list[bool] = []
    stopper = threading.Thread(target=lambda: stopped.append(runner.stop(5.0)))
    stopper.start()
    until(lambda: bool(stopped), lambda: clock.advance(1))
    assert stopped == [False]
    go_on.set()
    stopper.join()


def test_a_tick_that_hangs_shows_and_leaves_its_duty_to_another_process(clock: ManualClock) -> None:
    # Given two processes with the same two duties, and a tick in the first that does not return
    places = {"duty:stuck": OnePlace(), "duty:other": OnePlace()}
    go_on = threading.Event()
    stuck, other = Counting("stuck", lambda tick: assert_set(go_on)), Counting("other")
    runner = DutyRunner([stuck, other], leases=lambda name: places[name](name), clock=clock)
    runner.start()
    stuck.wait_for(1)
    other.wait_for(1)
    successor = Counting("stuck")
    second = DutyRunner([successor], leases=lambda name: places[name](name), clock=clock)

    # When it hangs for a minute, then that shows on it alone
    clock.advance(HUNG_AFTER_S)
    states = {status.name: status.state for status in runner.status()}
    assert states == {"stuck": "hung", "other": "running"}
    # And its lease is renewed no more, unlike the other's, which goes on
    held, others = places["duty:stuck"].made[0], places["duty:other"].made[0]
    before, ticks, renewals = held.renewals, other.ticks, others.renewals
    until(lambda: other.ticks > ticks and others.renewals > renewals + 3, lambda: clock.advance(1))
    assert held.renewals == before

    # So that it runs out, and the second process does the duty
    places["duty:stuck"].owner = None
    second.start()
    successor.wait_for(1)
    go_on.set()
    until(lambda: runner.status()[0].state == "elsewhere", lambda: clock.advance(1))
    assert stuck.ticks == 1
    assert runner.stop()
    assert second.stop()


def test_a_renewal_that_hangs_lets_no_other_lease_run_out(clock: ManualClock) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Hanging(Contended):
        def renew(self) -> bool:
            asked.set()
            return go_on.wait(PATIENCE_S)

    fine = OnePlace()
    runner = DutyRunner(
        [Counting("stuck"), Counting("other")],
        leases=lambda name: Hanging(OnePlace()) if name == "duty:stuck" else fine(name),
        clock=clock,
    )
    runner.start()
    until(asked.is_set, lambda: clock.advance(1))
    before = fine.made[0].renewals
    until(lambda: fine.made[0].renewals > before + 2, lambda: clock.advance(1))
    assert not go_on.is_set()
    go_on.set()
    assert runner.stop()


def test_a_lease_that_answers_again_is_no_failure_of_the_duty_any_more(clock: ManualClock) -> None:
    """Not only at the next tick, which may be minutes away."""

    class Weak(Contended):
        weak = True

        def renew(self) -> bool:
            if self.weak:
                raise Unavailable("no lease store")
            return super().renew()

    place, duty = OnePlace(), Counting()
    duty.interval_s = 10_000.0
    runner = DutyRunner([duty], leases=lambda name: Weak(place), clock=clock)
    runner.start()
    duty.wait_for(1)
    until(lambda: "no lease store" in runner.status()[0].last_error, lambda: clock.advance(1))
    Weak.weak = False
    until(lambda: runner.status()[0].last_error == "", lambda: clock.advance(1))
    assert duty.ticks == 1
    assert runner.stop()


def test_a_lease_that_ran_out_between_two_ticks_is_taken_anew_once_its_store_is_back(clock: ManualClock) -> None:
    class Lapsed(Contended):
        away = False

        def renew(self) -> bool:
            if self.away:
                raise Unavailable("no lease store")
            return super().renew()

        def acquire(self) -> int:
            if self.away:
                raise Unavailable("no lease store")
            return super().acquire()

    place, duty = OnePlace(), Counting()
    duty.interval_s = 10_000.0
    runner = DutyRunner([duty], leases=lambda name: Lapsed(place), clock=clock)
    runner.start()
    duty.wait_for(1)
    Lapsed.away = True
    until(lambda: "no lease store" in runner.status()[0].last_error, lambda: clock.advance(1))
    # For longer than it lasts.
    place.owner = None
    until(lambda: runner.status()[0].state == "store lost", lambda: clock.advance(1))
    Lapsed.away = False
    until(
        lambda: (runner.status()[0].state, runner.status()[0].last_error) == ("running", ""), lambda: clock.advance(1)
    )
    assert duty.ticks == 1
    # And who finds that another has it meanwhile leaves it to that one.
    place.owner = Contended(place)
    until(lambda: runner.status()[0].state == "elsewhere", lambda: clock.advance(1))
    assert runner.stop()


def test_who_no_longer_does_a_duty_tells_no_failure_of_it(clock: ManualClock) -> None:
    def fail(tick: int) -> None:
        raise ValueError("a defect")

    place = OnePlace()
    runner = DutyRunner([Counting(then=fail)], leases=place, clock=clock)
    runner.start()
    until(lambda: "a defect" in runner.status()[0].last_error)
    place.owner = Contended(place)
    until(lambda: runner.status()[0].state == "elsewhere", lambda: clock.advance(1))
    assert runner.status()[0].last_error == ""
    assert runner.stop()
