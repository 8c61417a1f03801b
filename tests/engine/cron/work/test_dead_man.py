"""A process that cannot renew the lease of its run any more ends, whatever holds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest

from engine.core.errors import Unavailable
from engine.cron.slots.running import LOST_AT
from engine.cron.slots.steps import Renew, Step
from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.commands import GRACE_S as PROGRAM_GRACE_S
from engine.cron.work.commands import POLL_S
from engine.cron.work.dead_man import TOLD_WITHIN_S, DeadManSwitch
from engine.cron.work.log_spool import LogSpool
from tests.engine.cron.slots.hall import Hall

GRACE_S = 60.0
_HELD = """
import os, re, sys, threading, time
from pathlib import Path
import redis
from engine.cron.slots.driving import acts
from engine.cron.slots.job import JobPolicy
from engine.cron.slots.keeping import LeaseKeeper
from engine.cron.slots.steps import *
from engine.cron.slots.store import SlotStore
from engine.cron.slots.worker import Ended, RunWorker
from engine.cron.work.call import RunCall, RunContext
from engine.cron.work.dead_man import dead_man
from engine.cron.work.log_spool import LogSpool

store = SlotStore(redis.Redis.from_url(sys.argv[1]), "dead-man")
row = RunRow(7, "close", 0, RunState.CLAIMED, 0, 1, 0.0)
act = acts({
    ReadRun: lambda step: row,
    Begin: lambda step: Beginning.BEGUN,
    End: lambda step: Ending(step.state),
    CancelledRuns: lambda step: set(),
    Acquire: store.acquire,
    Renew: store.renew,
    Release: store.release,
})
keeper = LeaseKeeper(dead_man().keeping(act))
keeper.start()
policy = JobPolicy(lease_s=1)
spool = LogSpool(Path(sys.argv[2]), 7, 1)
renewed = threading.Event()

def held_up(held, stop):
    dead_man().hold(held, RunContext(RunCall(7, "close", 1, 0, held.epoch, ""), spool), 0.3)
    # Longer than its lease and the grace: it is renewed.
    time.sleep(1.6)
    print("still there", flush=True)
    if os.fork() == 0:
        # As whoever leaves in the usual way does: a child has no such thread, and waits for none.
        sys.exit(0)
    os.wait()
    print("the child has left", flush=True)
    re.match(r"(a+)+$", "a" * 45 + "b")
    print("nobody waits for this", flush=True)
    return Ended(RunState.DONE)

RunWorker("w1", act, keeper, lambda job: policy).run(7, held_up)
"""


def test_work_that_holds_the_interpreter_is_ended_when_its_lease_is_over(redis_url: str, tmp_path: Path) -> None:
    code = [sys.executable, "-c", _HELD, redis_url, str(tmp_path)]
    done = subprocess.run(code, capture_output=True, timeout=60, check=False, text=True)
    assert (done.returncode, done.stdout) == (1, "still there\nthe child has left\n"), done.stderr
    # Who looks at the run's log sees where it stood.
    log = (tmp_path / "7-1.log").read_text()
    assert log.startswith("Timeout (")
    assert "in held_up" in log


class Desk:
    """A run that was begun, by a clock that the test moves."""

    def __init__(self, folder: Path) -> None:
        self.hall = Hall()
        self.clock = self.hall.places.clock
        self.held = self.hall.held()
        self.switch = DeadManSwitch(self.clock)
        self._spool = LogSpool(folder, self.held.row.id, 1)

    def hold(self, timeout_s: float = 0.0) -> None:
        call = RunCall(self.held.row.id, self.held.row.job, 1, 0, self.held.epoch, "")
        self.context = RunContext(call, self._spool, timeout_s)
        self.switch.hold(self.held, self.context, GRACE_S)

    @property
    def last_call(self) -> tuple[float, float]:
        """In how many seconds what the work has begun is asked to end, and none of it is left."""
        now = self.clock.monotonic()
        return self.context.last_call.asked - now, self.context.last_call.over - now

    def renew(self, answers: Callable[[Step], Any] | None = None, epoch: int | None = None) -> bool:
        """As the keeper of leases does; ``answers``: in the place of the store."""
        step = Renew(self.held.row.id, self.held.owner, epoch or self.held.epoch, self.held.lease_s)
        return bool(self.switch.keeping(answers or self.hall.places.act)(step))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.switch.let_go()


def test_each_renewal_puts_the_end_off_and_the_end_of_the_work_calls_it_off(desk: Desk) -> None:
    desk.hold()
    lease_s = desk.held.lease_s
    assert desk.switch.ends_in_s == pytest.approx(lease_s + GRACE_S)
    desk.clock.advance(lease_s / 2)
    assert desk.switch.ends_in_s == pytest.approx(lease_s / 2 + GRACE_S)
    assert desk.renew()
    assert desk.switch.ends_in_s == pytest.approx(lease_s + GRACE_S)
    # A renewal that is refused puts nothing off.
    desk.clock.advance(3)
    desk.hall.places.store.flush()
    assert not desk.renew()
    assert desk.switch.ends_in_s == pytest.approx(lease_s - 3 + GRACE_S)
    desk.switch.let_go()
    assert desk.switch.ends_in_s == inf


def test_a_renewal_that_comes_after_the_end_holds_nothing(desk: Desk) -> None:
    desk.hold()
    desk.switch.let_go()
    assert desk.renew()
    assert desk.switch.ends_in_s == inf


def test_a_renewal_that_was_answered_before_the_work_began_counts(desk: Desk) -> None:
    """As where the database takes its time to say what the run is to do."""
    lease_s = desk.held.lease_s
    desk.clock.advance(lease_s / 2)
    assert desk.renew()
    desk.clock.advance(1)
    desk.hold()
    assert desk.switch.ends_in_s == pytest.approx(lease_s - 1 + GRACE_S)
    assert desk.last_call[1] == pytest.approx(lease_s - 1)


@pytest.mark.parametrize("other", ["of another epoch", "refused", "not answered"])
def test_but_none_that_is_another_s_or_was_not_granted(desk: Desk, other: str) -> None:
    def answers(_: Step) -> bool:
        if other == "not answered":
            raise Unavailable("The store is away.", remedy="Wait.")
        return other != "refused"

    lease_s = desk.held.lease_s
    desk.clock.advance(lease_s / 2)
    with suppress(Unavailable):
        desk.renew(answers, desk.held.epoch + 1 if other == "of another epoch" else None)
    desk.hold()
    assert desk.last_call[1] == pytest.approx(lease_s / 2)


@pytest.mark.parametrize("begun", ["before the renewal was sent", "while its answer is awaited"])
@pytest.mark.parametrize("answer", ["granted", "refused", "none"])
def test_while_a_renewal_is_under_way_no_program_is_asked_to_end_that_its_answer_could_save(
    desk: Desk, begun: str, answer: str
) -> None:
    def answers(_: Step) -> bool:
        if begun == "while its answer is awaited":
            desk.hold()
        desk.clock.advance(lease_s * 0.2)
        asked_s, over_s = desk.last_call
        # Later than what can be passed on no answer saves it; and without one it is gone in time.
        assert (asked_s, over_s) == pytest.approx((lease_s * 0.05 - POLL_S, lease_s * 0.05))
        if answer == "none":
            raise Unavailable("The store is away.", remedy="Wait.")
        return answer == "granted"

    lease_s = desk.held.lease_s
    if begun == "before the renewal was sent":
        desk.hold()
    notice_s = lease_s * (1 - LOST_AT) / 2
    # The last one that is permitted.
    desk.clock.advance(lease_s * 0.75)
    with suppress(Unavailable):
        desk.renew(answers)
    left_s = lease_s * (0.8 if answer == "granted" else 0.05)
    assert desk.last_call == pytest.approx((left_s - notice_s, left_s))


def test_no_renewal_puts_the_end_off_behind_the_time_of_the_run(desk: Desk) -> None:
    desk.hold(timeout_s=4)
    assert desk.switch.ends_in_s == pytest.approx(4 + TOLD_WITHIN_S + GRACE_S)
    desk.clock.advance(3)
    assert desk.renew()
    assert desk.switch.ends_in_s == pytest.approx(1 + TOLD_WITHIN_S + GRACE_S)


def test_what_goes_on_without_the_process_is_gone_when_the_lease_is_over_unless_that_is_renewed(desk: Desk) -> None:
    desk.hold()
    lease_s = desk.held.lease_s
    asked_s, over_s = desk.last_call
    assert over_s == pytest.approx(lease_s)
    # Not before the worker itself would have asked.
    assert lease_s * LOST_AT < asked_s < lease_s
    desk.clock.advance(lease_s / 2)
    assert desk.last_call[1] == pytest.approx(lease_s / 2)
    assert desk.renew()
    assert desk.last_call == pytest.approx((asked_s, over_s))


def test_and_when_the_time_of_the_run_is_over_however_often_its_lease_is_renewed(desk: Desk) -> None:
    desk.hold(timeout_s=1)
    desk.clock.advance(4)
    assert desk.renew()
    assert desk.last_call == pytest.approx((1 + TOLD_WITHIN_S - 4, 1 + TOLD_WITHIN_S + PROGRAM_GRACE_S - 4))
